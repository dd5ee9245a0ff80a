"""The times that candidates are compared with: the reference alone, compiled, in several processes."""
