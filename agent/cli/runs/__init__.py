"""Commands that ask models: run, generate, experiment, prompt, replay."""
