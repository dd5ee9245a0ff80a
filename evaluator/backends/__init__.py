"""Backends: the ways to write a kernel, one file each, and the registry that finds them."""
