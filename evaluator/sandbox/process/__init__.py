"""Sandboxed processes: start, control, freeze, kill, clean up."""
