"""The process a candidate lives in: loads it, calls it, and claims results. Standard library and torch only.

Nothing here is trusted: the candidate shares this interpreter. The referee believes bytes, not words.
"""
