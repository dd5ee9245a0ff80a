"""The evaluator over HTTP: accepts candidates, evaluates them, and stores the results.

It needs the extra `service`.
"""
