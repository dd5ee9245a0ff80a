"""Records that every part of the agent shares: messages, log lines, budgets, provenance."""
