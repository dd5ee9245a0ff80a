"""Times and numbers of evaluation on a cluster."""

from __future__ import annotations

from typing import Final

FIRST_JUDGE_S: Final = 900.0
"""Seconds until the first judge answers: an autoscaler may have to start a node."""
START_S: Final = 180.0
"""Seconds until a judge that is meant for one node answers; another node may be free meanwhile."""
FAILED_STARTS: Final = 3
"""Judges that end before they describe themselves, one after the other, until the cluster is given up."""
RESTART_S: Final = 60.0
"""Seconds, at most, between a judge that ended before it described itself and the next."""
NOBODY_S: Final = 900.0
"""Seconds an evaluation waits while no judge is there at all."""
LOOK_S: Final = 0.5
"""Seconds between two looks at a judge that evaluates, and between two at the pool."""
HEALTH_S: Final = 10.0
"""Seconds between two questions whether a judge lives."""
DEAF_S: Final = 90.0
"""Seconds without an answer after which a judge counts as hung and is killed."""
DEADLINE_FACTOR: Final = 3.0
"""Multiple of an evaluation's own limit after which its judge counts as hung: pauses come on top."""
STEAL_S: Final = 0.5
"""Seconds an evaluation waits for the judge that its problem goes to before another one takes it."""
MOST_PREEMPTIONS: Final = 5
"""Times that an evaluation begins again because its node is taken back by whoever lends it."""
BUILDER_CORES: Final = 2
"""Cores that Ray counts for a builder: most builds are one or two compilers."""
BUILDS_AHEAD: Final = 4
"""Candidates that wait at one builder, the one it builds included; more are built by their judges."""
IDLE_S: Final = 300.0
"""Seconds after which a judge that is not needed gives its device back."""
QUARANTINE_LOSSES: Final = 2
"""Judges lost during one candidate, the last with nothing else under way, after which it is quarantined."""
NOISE_EVERY: Final = 200
"""Evaluations of a judge between two checks of its noise."""
NOISE_RETRY_S: Final = 60.0
"""Seconds until a noisy judge is checked again."""
NOISE_BOUND: Final = {"cuda": 1.05, "cpu": 2.0}
"""Largest ratio of a program's time to its own: by kind of device.

A quiet H100 stayed within 1.02 in its first run, two cores of a shared host between 0.64 and 1.2.
"""
NOISE_TRIES: Final = 2
"""Checks in a row that must fail until a judge counts as noisy."""
REACH_S: Final = 10.0
"""Seconds for the head of a cluster to take a connection."""
PROBE_S: Final = 60.0
"""Seconds for an unauthenticated client to be refused, or not."""
