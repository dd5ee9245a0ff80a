"""The version of the rules that score, and limits of reading problem files and of parsing Python."""

from __future__ import annotations

from typing import Final

SCORING_RULES: Final = 6
"""Version of everything here that decides a status or a speedup. Raise it whenever a candidate could get
another one than before: with a tolerance, an input distribution, a rule of the clock, a check. Scores of
different rules have different policies. Limits, messages and refactoring do not raise it; a test holds it to
the constants."""
ROOFLINE_NOISE: Final = 1.05
"""Share of the roofline up to which the noise of measured rates explains it: of 107 kernels on an H100 those
that move exactly the reference's bytes reached 1.03."""
MAX_PROBLEM_BYTES: Final = 4 << 20
"""Largest problem file."""
PARSE_TRIES: Final = 5
"""Attempts to parse a source, as other code in this process, such as import hooks, ignores our lock."""
DETAIL_CHARACTERS: Final = 4000
"""Characters of an error's message that an evaluation's `detail` holds."""
