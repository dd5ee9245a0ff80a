"""Sandboxed processes as the driver sees them: their image, their start, a warm stock, the referee."""
