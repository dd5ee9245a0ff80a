"""Formats of other projects: KernelBench, flashinfer-bench, verifiers, Python packages, chat files."""
