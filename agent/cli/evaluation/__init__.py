"""Commands that evaluate: one file, saved kernels, problems, this machine, and the service."""
