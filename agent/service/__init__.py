"""The evaluator over HTTP: accepts candidates, evaluates them, and stores the results.

`client` needs nothing but the standard library; the rest needs the extra `service`.
"""
