"""Turns selected attempts into rows, files and a dataset card."""
