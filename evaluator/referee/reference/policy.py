"""Numbers that decide how inputs are read, the reference is perturbed, and its calls are timed."""

from __future__ import annotations

from typing import Final

CHUNK_ELEMENTS: Final = 1 << 24
"""Elements perturbed at once, to bound memory."""
SUM_SHRINKS: Final = 8
"""Times fewer elements from which on a sum of a product counts as most of the product's work wasted."""

# Structure of inputs.
FIRST_ELEMENTS: Final = 1024
"""Elements looked at before all of them are: the first few mostly tell a mask from values."""
FEWEST_ORDERED: Final = 8
"""Numbers that are not in order by chance; of fewer, several rows or draws decide."""
CHANCE: Final = 1e-4
"""Probability below which an order found in every draw is no chance."""
CHANCE_IF_CONSTANT: Final = 1 / 12
"""The same where every draw is equal, so that no more can be seen: four numbers in order."""
MAX_DRAWS: Final = 16
"""Draws looked at for an order."""
FEWEST_REPEATED: Final = 4
"""Numbers a row needs for a repetition to be one, as in tables of rotary embeddings."""
DRAWN_ELEMENTS: Final = 1 << 24
"""Elements of inputs that are drawn for a prompt, to see which are always the same: more take seconds."""
CONSTANT_DRAWS: Final = 3
"""Draws after the first in which an input that never varies is the same."""
FEWEST_POSITIONS: Final = 3
"""Steps of one between whole numbers that are positions in order and not a few flags."""
MASKED_SHARES: Final = (0.2, 0.8)
"""Least and largest share of a mask that is flipped."""

# Noise on learned parameters.
PARAMETER_NOISE: Final = 0.25
"""Share of itself that an element moves by at most: one expert for another errs by a fifth, twice what limits
in half precision leave; products of a hundred layers stay as large as they were."""
ZERO_NOISE: Final = 0.5
"""Share of a tensor's root mean square that its zeros move by at most."""
ORDERED_NOISE: Final = 0.4
"""Share of the way to the next number that one in order moves by at most."""
FEWEST_BITS: Final = 32
"""Elements of a tensor of two numbers that may be a mask or weights of one bit; a smaller one is moved."""
RARER_BIT: Final = 1 / 8
"""Share of the rarer of these two numbers, below which it is an identity, or one hot place."""

# Larger random weights.
WEIGHT_FACTORS: Final = (4.0, 2.0, 1.5)
"""Times that random weights lie farther from their means, where the reference stands it. Of 57 reference
problems at small sizes 42 stand the first, eight the second; a fixed point that 24 steps reach stands the
second at least, where these steps err ten limits or more."""
DEPENDENCE_KEPT: Final = 1 / 4
"""Share of the difference between answers to two inputs, relative to their size, that larger weights leave at
least: less, and they saturate what the inputs decide."""

# Structure of weights, which random ones do not have.
RANDOM_ZEROS: Final = 0.001
"""Share of zeros."""
COUNTED_ELEMENTS: Final = 1 << 16
"""Elements whose repetitions are counted: of so many that `torch.rand` draws, 0.2 % repeat."""
RANDOM_REPEATS: Final = 0.02
"""Share of them that repeat."""
FEWEST_COLUMNS: Final = 4
"""Numbers in a slice, below which two may be equal by chance."""
LOOKED_AT: Final = 1 << 22
"""Elements of which slices along a dimension are compared."""
EQUAL_SUMS: Final = 1e-13
"""Relative difference of two slices' weighted sums at which the slices are compared."""
COMPARED_SLICES: Final = 1024
"""Slices that are compared at most."""
BLOCK_ROWS: Final = 256
"""Rows and columns of the block whose rank is looked at."""
FEWEST_ROWS: Final = 4
"""Rows of it at least."""
RANK_TOLERANCE: Final = 1e-7
"""Singular value, relative to the largest, that counts as none."""
ORTHOGONAL: Final = 1e-4
"""Cosine of two rows: random rows of a million numbers have 1e-3."""

# Latency of a call by itself.
TIMING_S: Final = 0.4
"""Seconds spent timing a call."""
MAX_BATCHES: Final = 50
"""Batches, and calls of a batch, at most."""
BATCH_MS: Final = 1.0
"""Milliseconds a batch should take, so that the clock's resolution does not matter."""
LEAST_CALL_MS: Final = 0.02
"""Shortest call worth timing."""
LAUNCHES: Final = 3
"""Launches of an empty kernel that a call must outlast: below, launching dominates."""
THREAD_TRIALS: Final = 3
"""Calls timed with one thread and with all, to choose between them."""
LONG_CALL_S: Final = 0.2
"""Seconds from which on a call keeps all threads untried."""
