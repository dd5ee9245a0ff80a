"""The HTTP door to the evaluator: accepts candidates, has them judged, keeps the verdicts.

`client` needs nothing but the standard library; the rest needs the extra `service`.
"""
