"""Isolation tiers: bubblewrap, Landlock, seccomp, control groups."""
