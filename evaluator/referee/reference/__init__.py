"""The reference model: its outputs, shapes, cost and latency."""
