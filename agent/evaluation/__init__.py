"""The places where candidates are evaluated: this machine, services, or a cluster. Imports no torch."""
