"""Who completes prompts: OpenAI-compatible endpoints, the Batch API, recordings; and what they cost."""
