"""A warm evaluator of this user that outlives one command: `client.evaluate_warm()`."""
