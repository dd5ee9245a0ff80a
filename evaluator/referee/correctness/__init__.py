"""Verification: secret trials, tolerances, comparison of outputs."""
