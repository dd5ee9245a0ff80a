"""Proposes kernels, remembers every attempt, and reports; judges nothing itself."""
