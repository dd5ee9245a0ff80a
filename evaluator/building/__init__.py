"""Builds the extensions a candidate asks for: flags, plans, the build sandbox, the cache, lean headers."""
