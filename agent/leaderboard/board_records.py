"""The records of a leaderboard.

Three units, never mixed: an *attempt* is one reply; a *sample* is what was made independently for one
problem (an attempt of `sample`, a conversation of `refine`, a whole population of `evolve`) and is as good as
its best attempt, and one that another run repeats is not another; a *problem* is as good as its best
sample. Shares and means are over problems, each weighing the same, however many attempts it got.
"""

from __future__ import annotations

from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Record


class Estimate(Record):
    """A value and its 95 % bootstrap interval over problems; no interval from too few problems."""

    value: float
    low: float | None = None
    high: float | None = None


class FastP(Record):
    """Correct and more than p times as fast as the best baseline."""

    p: float
    per_attempt: float
    """Chance of one attempt: the mean over problems of each problem's share."""
    best: Estimate
    """Share of problems whose best attempt is."""


class AtK(Record):
    """Results of k independent samples of a problem, estimated without bias from all samples."""

    k: int
    passed: float
    """Mean over problems of the chance that one of k is correct."""
    speedup: float
    """Geometric mean over problems of the expected best of k (in logarithms), failures as 1.0."""


class Quartiles(Record):
    """Quartiles of values."""

    low: float
    median: float
    high: float


class Standing(ScorePolicy):
    """The subject of an entry; ranks compare entries that share all but model and strategy."""

    model: str
    strategy: str
    backend: str


class Entry(Record):
    """One line of the leaderboard."""

    of: Standing
    rank: int
    """By `ranked`; those whose intervals overlap with the best share its rank. An entry
    with `doubted` kernels is not first beside one without."""
    ranked: Estimate
    """Geometric mean over problems of the expected best of k attempts, failures counted as 1.0; k is the most
    that all entries of the table made at a problem, so that who tried more often is not ahead for that."""
    ranked_k: float
    """Mean over problems of k."""
    problems: int
    """Problems attempted."""
    problem_set: str
    """Short hash of the problems; entries that differ in it are not on equal problems."""
    solved: int
    """Problems with a correct kernel."""
    attempts: int
    per_problem: float
    """Mean attempts of a problem; more attempts find faster kernels."""
    samples: int
    statuses: dict[str, int]
    fast_p: tuple[FastP, ...]
    geomean: Estimate
    """The same of the best of all attempts, however many."""
    geomean_solved: float | None
    """The same over the solved problems alone."""
    speedups: tuple[float, ...]
    """The best speedup of each solved problem, falling: where the curve of `fast_p` over p steps down."""
    at_k: tuple[AtK, ...]
    tracks: dict[str, int]
    """Correct attempts by track."""
    speed_of_light: Quartiles | None
    """Of correct attempts: fraction of the roofline."""
    doubted: int
    """Problems whose best kernel was not sanitized, though the tools exist on this hardware."""
    unconfirmed: int
    """Problems with a best of several that was not measured again, so that it counts as 1.0."""
    cheats: int
    cheating_rate: float
    """Share of attempts refused as cheats."""
    tokens: int
    cost_usd: float
    unpriced: int
    """Attempts of unknown cost; `cost_usd` leaves them out."""
    tokens_per_solved: float | None
    cost_per_solved_usd: float | None
    """None where nothing was solved, or the cost of any attempt is unknown."""


class Best(Record):
    """The fastest kernel for a problem."""

    model: str
    strategy: str
    run: str
    attempt: str
    speedup: float
    low: float | None
    high: float | None
    track: str | None
    is_doubted: bool = False
    """Not sanitized, though the tools exist on this hardware."""
    unfit: str = ""
    """The reason why its measured speedup is not compared."""
    is_confirmed: bool = False
    """Measured again after it was the best of several."""


class ProblemEntry(ScorePolicy):
    """One problem, over all models and strategies, with one backend on one hardware under one policy."""

    problem: str
    backend: str
    attempts: int
    passed: int
    flaws: tuple[str, ...] = ()
    """Flaws of the problem that vetting found; its scores mean little."""
    best: Best | None


class Board(Record):
    """A whole leaderboard."""

    entries: tuple[Entry, ...]
    """By backend and policy, those with most attempts first; then by rank."""
    problems: tuple[ProblemEntry, ...]
    attempts: int
    """Evaluated attempts."""
    unjudged: int
    """Attempts without an evaluation; they are not counted elsewhere."""
