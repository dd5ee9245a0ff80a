"""Pure functions over sources, traces, built libraries, times and tool reports."""
