"""Builds candidates' extensions in a sandbox and caches them."""
