"""The driver: starts referees and contestants, hands out devices, serves the referees' requests."""
