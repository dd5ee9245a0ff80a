"""From settings to a run that can start: providers, prompts, problems, budgets."""
