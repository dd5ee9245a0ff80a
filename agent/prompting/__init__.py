"""Renders prompts and turns evaluations into feedback for the model."""
