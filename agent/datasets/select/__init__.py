"""Reads an archive and selects the attempts a dataset holds."""
