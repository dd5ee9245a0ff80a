"""Checks of a problem itself: trivial answers, sensitivity, half precision."""
