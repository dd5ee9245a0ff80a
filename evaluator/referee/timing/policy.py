"""Numbers that decide how candidates are timed, with the measurement behind each where there is one.

Where a number differs by device, `cpu` has shared cores and `cuda` has a device held alone.
"""

from __future__ import annotations

from typing import Final

# Consistency of claimed and measured time, in milliseconds of a batch.
CLAIM_TOLERANCE: Final = 0.02
"""Share of the claimed time that the measured time may exceed it by."""
ANSWER_TOLERANCE_MS: Final = {"cpu": 0.05, "cuda": 0.1}
"""Time excess allowed on top: of processes with the same code one answers 0.08 ms later all its life."""
OWNING_FACTOR: Final = 1.5
"""Times the baseline's time that a candidate may take to look for outputs that share memory, and to stand
still when it is frozen: two processes of the same code differ by a quarter."""
MEASURED_TOLERANCE: Final = 0.05
"""Share of the measured time above which neither noise nor a late process excuses a time excess."""
NOISY_SHARE: Final = 0.25
"""Noise over measured time from which on nothing is tolerated: the noise itself is added to the claim."""
NOISE_FACTOR: Final = 4.0
"""Standard errors of a typical value that count as noise."""
STEADY_VALUES: Final = 12
"""Values whose spread tells their noise; of fewer, the best is compared with the worst."""

# A forged clock: every turn's claim is far below the measured time.
FORGED_SHARE: Final = 0.5
"""Unclaimed time, as a share of the claim, that every turn must exceed."""
FORGED_MS: Final = 2.0
"""Unclaimed time allowed on top, beside twice the baseline's largest."""
FORGED_TURNS: Final = 4
"""Turns it takes at least."""

# Uneven turns: some prepare what others use.
FEWEST_UNEVEN_TURNS: Final = 4
"""Turns whose mean says anything."""
UNEVEN_SHARE: Final = 0.1
"""Share of the typical turn by which the mean one may exceed it more than the baseline's does, besides
standard errors. None of 39 honest kernels of 12 turns on a busy CPU was charged, and none of 201 scores on an
H100 and an H200; of 72 such series made to work in every fifth turn for the others, two thirds were. On a
shared host, an honest candidate whose calls take 3 or 12 ms was in 7 of 12 evaluations."""
UNEVEN_ERRORS: Final = 1.2
"""Standard errors of both means that are allowed for. Of series of 36 turns drawn from those, 8 % of honest
ones were charged, and 87 % of those made to work in every fifth turn."""

# Merged calls: a single call costs more than one of a batch.
FEWEST_SINGLE_CALLS: Final = 2
"""Single calls of each worker that say anything."""
MAX_SINGLE_CALLS: Final = {"cpu": 16, "cuda": 6}
"""Single calls of long calls."""
SHORT_CALL_MS: Final = 0.5
"""Calls below it are short: merged work is then less than the noise of few single calls."""
MAX_SHORT_SINGLE_CALLS: Final = 36
"""Single calls of short calls."""
MAX_QUEUED_SINGLE_CALLS: Final = 12
"""Single calls of short calls that are queued, whose claims hardly vary: one a turn, two while in doubt."""
SINGLE_CALL_TURNS: Final = 3
"""Turns per single call that is surely made, until there are enough."""
SINGLE_CALL_CHANCE: Final = 0.3
"""Chance of a single call after other turns, so that none is announced."""
VARIED_TURN_CHANCE: Final = 0.2
"""Chance of a turn with other masks and lengths, which is compared but not scored; one comes among the fewest
turns and one last."""
LOST_SHARE: Final = 1.2
"""Times the baseline's time from which on a candidate has lost: it gets no more single calls."""
SINGLE_CALL_SHARE: Final = {"cpu": 0.15, "cuda": 0.25}
"""Share of a call that a single one may cost more."""
LEAST_SINGLE_QUANTILE: Final = 0.1
"""Quantile of a CPU's single calls that counts. In 10 pairs of processes with the same code, 0.16 ms a
call, the least differed by at most 0.03 ms beyond what batched ones differed."""
HIDDEN_SINGLE_MS: Final = {"cpu": 0.1, "cuda": 0.03}
"""Time of the least single calls, beyond the baseline's, that a process may leave unclaimed. None of 20
honest kernels of 15 to 240 µs was charged on an H100."""
CLAIMED_SINGLE_MS: Final = {"cpu": 0.02, "cuda": 0.04}
"""Claimed time a single call may cost more: on a GPU a first launch or cold code, which a batch hides."""
QUEUED_SINGLE_MS: Final = 0.002
"""The same of queued calls, beyond what the baseline's cost: 20 honest kernels of 7 to 25 µs on an H100 cost
at most 1.0 µs more. Calls that overlap go free up to it."""
WAKE_S: Final = 0.5e-3
"""Time for a process to wake before the gate of a single call opens, on a GPU."""
MEASURED_SINGLE_MS: Final = 0.1
"""Measured time a single call may cost more."""
QUEUED_MEASURED_SINGLE_MS: Final = 0.2
"""The same of queued calls: a queue is released before its process wakes, which long calls hide."""
CLEARING_SHARE: Final = 0.5
"""Share of all these below which single calls leave no doubt, and end."""
CLEARING_STEP: Final = 6
"""Single calls from one look at them to the next."""

# Turns, and when they end.
TYPICAL_QUANTILE: Final = {"cpu": 0.25, "cuda": 0.5}
"""Quantile of the turns that scores: the median; on a CPU, shared with others, of the quicker half."""
TURNS_FACTOR: Final = {"cpu": 3, "cuda": 1}
"""Factor on all numbers of turns: a CPU's are short, to fit between its other users' time slices."""
FEWEST_TURNS: Final = 6
"""Turns before the interval is looked at."""
FEWEST_OF_A_KIND: Final = 3
"""Turns of each kind of inputs from which on a candidate may be surely slower on one: half of the fewest."""
LOOK_FACTOR: Final = 1.5
"""Factor on the turns until the interval is looked at again: each look may stop too early."""
TIGHT_INTERVAL: Final = {"cpu": 0.03, "cuda": 0.01}
"""Relative half-width of the interval at which timing ends."""
WON_INTERVAL: Final = {"cpu": 0.03, "cuda": 0.02}
"""The same where the whole interval lies above `LOST_SHARE`: no baseline is close."""
LOST_INTERVAL: Final = 0.05
"""The same where the whole interval says that the candidate lost: nobody ranks it."""
HOPELESS_RATIO: Final = 0.1
"""Speedup below which timing ends early."""
HOPELESS_TURNS: Final = 4
"""Turns before that."""
COMPARISON_S: Final = {"cpu": 6.0, "cuda": 20.0}
"""Wall time after which a comparison ends."""
CALLS_PER_TIMEOUT: Final = 8
"""Calls of a batch that share the time-out of one call."""
SLOW_CANDIDATE: Final = 10
"""Times the baseline's time a call that a candidate may take before it times out or gets shorter batches."""
CACHE_FLUSHING_BYTES: Final = 96 << 20
"""Outputs from which on poisoning them overwrites a GPU's cache by itself: an H200 has 50 MiB of L2."""

# Batches.
BATCH_MS: Final = {"cpu": 5.0, "cuda": 50.0}
"""Wanted length; messages cost an H200 402 µs a call of 2.8 ms in batches of 1, and 6 µs in ones of 100."""
QUEUED_BATCH_MS: Final = 20.0
"""The same of queued calls, whose claims hold no messages."""
QUEUED_BATCHES: Final = 2.0
"""Times that length that a slower baseline's batch may take, unless the candidate's is then too short."""
SHORTEST_CALL_MS: Final = 1e-3
"""Calls are taken to last as long at least."""
SHORTEST_QUEUED_MS: Final = 1.25
"""Measured time of a queued batch, with a quarter of a millisecond of messages, that tells enough."""
SHORTEST_CHOSEN_MS: Final = 5.0
"""The same where the candidate might have queued more: a full queue lasts about as long."""
GATE_SLOWDOWN: Final = 0.9
"""Time with launches over time behind the gate below which calls are not queued: a larger gap than this is
not noise."""
QUEUE_ATTEMPTS: Final = 2
"""Times that a worker may fail to queue a single call: with ten evaluations on an H100, 3 of 39 kernels that
queue elsewhere failed."""
PROBE_TURNS: Final = {"cpu": 3, "cuda": 2}
"""Turns that size a batch."""
SLOW_PROBE_MS: Final = 500.0
"""Batch after which one probe is enough."""
SIZINGS: Final = 2
"""Comparisons whose batches turned out too short, until the largest batches are taken."""
LEAD_CALLS: Final = {"cpu": 0, "cuda": 1}
"""Unscored calls at a batch's start: a host launches its first kernel in tens of microseconds, more while its
cores are busy."""

# Memory for timed calls.
MAX_CALLS: Final = 4096
"""Calls of the largest batch."""
ABOUT_CALLS: Final = 3
"""Calls of the reference whose least time says how many calls memory is to hold."""
BATCHES_HELD: Final = 2.0
"""Batches of the reference's calls that a GPU's memory for calls holds at most: of a candidate twice as quick
one, of a quicker one less, which is still longer than the clock needs."""
FEWEST_HELD: Final = 32
"""Calls that it may hold in any case."""
MEMORY_SHARE: Final = 0.15
"""Share of the free memory for one worker's calls."""
SHORT_MEMORY_SHARE: Final = 0.25
"""Share of the calls an empty device would hold, below which batches are too short to time."""
MEMORY_BYTES: Final = {"cpu": 192 << 20, "cuda": 6 << 30}
"""Memory for one worker's calls: measured times of batches below a few milliseconds are mostly noise."""

# Baselines.
SOLO_TURNS: Final = 6
"""Turns of the reference alone."""
WARM_UP_TURNS: Final = 1
"""Turns of another reference process before it is compared."""
TRUSTED_TURNS: Final = 5
"""Turns of two reference processes."""
TRUSTED_CALL_S: Final = 120.0
"""Time-out of a call of a reference process."""
TRUSTED_BATCH_MS: Final = 12.0
"""Batch length at which two reference processes vary little."""
COMPILE_S: Final = 300.0
"""Time-out of the compiled reference's first call."""
COMPILE_ATTEMPTS: Final = 2
"""Processes in which compiling the reference must fail: the first may run beside other evaluations."""
DRIFT: Final = {"cpu": 0.5, "cuda": 0.05}
"""Relative error of a cached ratio, and change of the reference's time, until it is measured again: on a CPU
others cause both, and compiling takes a minute."""
COMPARED_PROCESSES: Final = {"cpu": 3, "cuda": 4}
"""Reference processes that are compared."""
ASSUMED_SPREAD: Final = 0.003
"""Relative standard deviation between processes that is assumed on a GPU where it is not measured: that of 23
problems of 0.1 to 1.7 ms on an H200, queued, was 0.02 to 0.14 %, once 0.34 %; that of one of 0.07 ms 0.14 to
0.38 %."""
NORMAL_QUANTILE: Final = 1.96
"""97.5 % quantile of the normal distribution, for what is assumed."""
ASSUMED_FROM_MS: Final = 0.1
"""Time of the reference from which on it is assumed: processes differ more in shorter calls."""
CLOSE_CALL: Final = 0.05
"""Distance of a speedup from 1, in logarithms, up to which it is measured: there it tells who is faster."""
STUDENT_T: Final = {"cpu": 4.303, "cuda": 3.182}
"""97.5 % quantile of Student's t for one degree of freedom less than the compared processes."""
QUIET_THREADS: Final = 0.25
"""Mean number of other programs' threads without a core above which a CPU's intervals may not hold."""
CONTENDED_FACTOR: Final = {"cpu": 1.5, "cuda": 1.05}
"""Times its time alone from which on a baseline was slowed down by the candidate: on a CPU a process takes up
to a third longer when it alternates with another one."""
CONTENDED_SPREADS: Final = 3
"""Spreads of its turns alone allowed on top."""
CPU_RECHECKS: Final = 2
"""Times that a baseline which seems slowed is measured alone on a CPU: others slow it, too."""
RECHECK_IN_SECOND_PROCESS: Final = {"cpu": False, "cuda": True}
"""Inconsistent claims are timed again in another process; not on a CPU, whose tolerance grows with its
noise, and where starting a process takes longer than timing one."""

# Statistics.
RESAMPLES: Final = 2000
"""Bootstrap resamples."""
SMALLEST_TIME: Final = 1e-9
"""Times are taken to be as long at least, to divide by."""

# Inputs of timed calls.
NOISE_SLACK: Final = 65536
"""Factors beyond those one call needs: each call starts reading at its own place."""
NOISE_STEP: Final = 4
"""Places between two starts at least: wide loads take the same kernel for each, and kernels load once."""
INPUT_SHIFT: Final = 4100
"""Places between the factors of two inputs: with the same ones their products would carry no sign."""
MAX_DRAWN_CALLS: Final = 32
"""Calls of a batch whose inputs are drawn anew, which is slow."""
MAX_SMALL_DRAWN_CALLS: Final = 128
"""The same of small inputs, whose calls are short."""
SMALL_DRAW_ELEMENTS: Final = 1 << 14
"""Elements of a small draw."""
CALLS_PER_PAIR: Final = 4
"""Calls of a batch from which on one surely has inputs near those of an earlier batch; of fewer, seldomer."""
REDRAWN_CALLS_PER_PAIR: Final = 16
"""The same where inputs are drawn anew: those that are not moved come again in that call."""
EXACT_CALLS: Final = 4
"""Ordinary calls that are compared with exact outputs in the end: beside the baseline's, all groups may err
as the worst one of any draw, up to half of an attention's outputs. A candidate that is wrong in half of its
calls is found 15 times of 16."""
LOOK_CHANCE: Final = 0.5
"""Chance that a GPU's worker is asked to show the outputs that it overwrote after a turn. To overwrite,
show and drop them took a third of timing calls of 0.2 ms on an H100. After turns with trials or varied inputs
it always is."""
TRIALS_PER_TURN: Final = 2
"""Calls of an unscored batch that are trials with exact outputs: other turns' calls are compared with the
baseline's alone, on inputs that are all of one distribution."""
LEAST_PAIRED: Final = 0.5
"""Share of batches of few calls that have such inputs."""
CHUNK_ELEMENTS: Final = {"cpu": 1 << 20, "cuda": 1 << 24}
"""Elements of inputs made at once: beyond, copies would leave a CPU's cache; a GPU waits for each launch."""

# Samples of memory.
SAMPLED_BYTES: Final = 4096
"""Secret places per input or output whose bytes must not change."""
SAMPLED_ELEMENTS: Final = 64
"""Secret elements of outputs and state read from a process's own memory at its answer: 5 % that is missing
shows in 19 of 20 turns, and 64 reads take 0.07 ms."""
