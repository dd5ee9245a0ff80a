"""Pure functions over candidates and tool output: no process is started here, torch is never imported."""
