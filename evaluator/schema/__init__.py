"""The evaluator's records: problem, candidate, configuration, evaluation."""
