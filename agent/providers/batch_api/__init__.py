"""Completions through the OpenAI Batch API."""
