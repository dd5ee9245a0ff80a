"""Builds C++ and CUDA extensions in a sandbox, once each."""
