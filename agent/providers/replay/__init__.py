"""Records completions and serves them again over the OpenAI protocol."""
