"""Interleaved timing of candidate and baselines, and the speedup."""
