"""Commands that evaluate: one file, kept kernels, problems, this machine, and the service."""
