"""The records of the evaluator: problem, candidate, configuration, evaluation."""
