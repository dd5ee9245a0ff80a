"""Checks beside correctness and time: sanitizers, counters, attribution, roofline."""
