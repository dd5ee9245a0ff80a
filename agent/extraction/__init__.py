"""Extracts the candidate from a model's reply; reads Python source without running it."""
