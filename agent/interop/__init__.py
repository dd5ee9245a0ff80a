"""Writes what other projects read: KernelBench's run folders, flashinfer-bench's records, Python packages."""
