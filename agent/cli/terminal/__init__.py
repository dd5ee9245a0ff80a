"""Parts every command shares: options, consoles, progress and exit codes."""
