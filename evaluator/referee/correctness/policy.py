"""Numbers that decide whether outputs are correct, with the measurement behind each where there is one."""

from __future__ import annotations

from typing import Final

import torch

UNIT_ROUNDOFF: Final = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Perturbation of inputs and parameters under each math policy: half a unit in the last place it allows."""

# Limits: multiples of the error scale of a group of output elements (see tolerance.py).
ZERO_MEAN_LIMIT: Final = 128.0
"""Norm-wise limit where terms cancel: truncated sums of 216 products reach 52 in a row behind an activation,
sequential float32 7; with one operand in TF32 errors start near 450."""
OTHER_LIMIT: Final = 192.0
"""Norm-wise limit elsewhere: sequential float32 reached 29 for products of 131072 positive terms."""
EXACT_LIMIT: Final = 2.0
"""Norm-wise limit where elements are moved or chosen and nothing is computed: a unit in the last place,
though honest kernels err nothing; a table in 24 bits errs 125, keys sorted by 26 bits as much."""
CONVOLUTION_FACTOR: Final = 2.0
"""Times these limits behind convolutions: Winograd's F(6x6, 3x3) reaches 187 beside elements far out."""
REDUCED_LIMIT: Final = 16.0
"""Norm-wise limit where the math policy or the output's type is half precision: 192 times the error of a
bfloat16 reference is a third of a value."""
EIGHT_BIT_LIMIT: Final = 4.0
"""Norm-wise limit for outputs of eight bits: 16 roundings of one are half of its value."""
PEAK_FACTOR: Final = 8.0
"""Times the norm-wise limit that a single element may err."""
SEQUENTIAL_FACTOR: Final = 4.0
"""Times the root of the number of terms: the limit where sums are added one after another."""
TRUNCATION_FACTOR: Final = 1 / 20
"""Times the number of terms of a product: the limit where each addition truncates, as tensor cores do: three
TF32 products in one accumulator err 106 scales at 4096 terms on an H200."""
SUMMED_TERMS: Final = 4
"""Terms of a product that one term of another sum counts as in the first of these limits: they may be of one
sign, and then err more."""
MAX_ZERO_MEAN_LIMIT: Final = 512.0
"""Limit for zero-mean terms without products: inputs in half precision start near 950."""
MAX_PRODUCT_LIMIT: Final = 1024.0
"""The same of products: truncated sums reach 619 at 131072 terms, where TF32 is found by other means."""
MAX_SUM_TERMS: Final = 1 << 18
"""Terms of a sum without products beyond which the limit stays, or a mere sample of the terms would pass."""

# Precision of operands, over a whole output: where summation errs little, or its errors cancel. Units are the
# response to one rounding of every input.
PRECISION_LIMIT: Final = 20.0
"""Error where few terms are not zero, and least limit of the error of a change between nearby inputs. Of few
terms products err on an H200 at most 3.4, in any order, in three parts or truncating; Winograd's
F(4x4, 3x3) 7.2; two bfloat16 terms 51 and more, cut to 16 bits 105. Of changes Strassen's products err 10;
two bfloat16 terms 43 and more, 92 where mantissas are hard."""
CONVOLUTION_PRECISION_LIMIT: Final = 35.0
"""Least limit of the error of a change behind convolutions: Winograd's F(6x6, 3x3) errs up to 32 in the
trials of 16 seeds and in 58 timed calls, two bfloat16 terms 38 and more in the worst trial of each seed."""
HALF_PRECISION_LIMIT: Final = 3.0
"""Error where few terms are not zero, in half precision: rounding once is 1, and weights in eight bits by row
err 5."""
CHANGE_PRODUCT_FACTOR: Final = 0.4
"""Limit of the error of a change, times the root of the terms of a product: on an H200 sums reach 0.21 one
after another, and 0.23 where they are truncated."""
CHANGE_CONVOLUTION_FACTOR: Final = 1.0
"""The same of convolutions: Winograd's F(4x4, 3x3) reaches 0.85."""
CHANGE_SUM_FACTOR: Final = 0.6
"""The same, times the root of the terms of other sums, whose terms may be of one sign."""
BULK_SHARE: Final = 0.9
"""Share of an output's groups whose error decides as well: of 65536 linear systems the worst conditioned one
is most of the whole error, and how it answers to one rounding is chance."""
BULK_FLOOR: Final = 2.0**-24
"""Size of a group, as a share of the largest one's, up to which it is negligible there."""
OWN_ERROR_SHARE: Final = 8.0
"""Units that the reference's own error counts as at least: another order may err some times as much."""
DOUBLE_PRECISION_SHARE: Final = 1 / 2
"""Share of that limit in double precision, whose unit is two roundings: operands of 46 bits err about 20."""
FEW_TERMS: Final = 2
"""Terms of a reduction that are not zero, on average, in trials of few terms."""
NEGLIGIBLE_BITS: Final = {
    torch.float64: (73, 100),
    torch.float32: (44, 60),
    torch.bfloat16: (20, 40),
    torch.float16: (10, 13),
}
"""Powers of two that the other terms are smaller by: zeros would tell such trials from all others, and what
rounds a sum of many would count."""
MAX_FEW_TERMS: Final = 32
"""Terms any reduction may have there at most: beyond, summation errs as much as narrow operands."""
PRECISE_TYPES: Final = frozenset({torch.float32, torch.float64})
"""Types in which changes between nearby inputs are compared: coarser ones would round the distance away."""
NEARBY: Final = 2.0**-8
"""Relative distance of nearby inputs: beyond the last bit of two bfloat16 terms, and near enough for errors
that are smooth in the inputs, such as truncated sums', to cancel."""

# Error scales.
HALF_PRECISION_RATIO: Final = 4.0
"""A reference's own error over all else, from which on its roundings to half precision set the scale."""
VALUE_EPS: Final = 1 / 4
"""Share of an eps of a group's size that its scale is at least: about the RMS of rounding once."""
OVERALL_EPS: Final = 1 / 16
"""The same of a whole output's size, for each of its groups: a row of zeros behind a relu still carries the
rounding of what was cut off."""
USUAL_SHARE: Final = 1 / 4
"""Share of the median scale, relative to a group's size, that every group's scale is at least: of 1024 rows
of a softmax some have a twentieth of it by chance, and a plain sum errs 330 times that."""
MOST_USUAL_EPS: Final = 2.0
"""Units in the last place beyond which no group's scale is raised so."""
SETTLING_SAMPLES: Final = 8
"""Further perturbations where a group errs too much: of thousands of rows that hang on a difference of two
large scores, some answer to the first one by chance a thousandth as much as to others."""
HALF_RESPONSE_SHARE: Final = 1 / 4
"""Share of a group's largest response to one half-precision rounding of every input that its scale is at
least, where the reference rounds so on the way and the group errs too much. Of 240 outputs of an attention
with scores in bfloat16 and keys rounded otherwise, on inputs enlarged 16 times, 46 held a row that such
roundings decide and failed without it; of 360 none did with this share, one with half of it. Keys cut to
five bits failed 60 times of 60."""
HALF_RESPONSE_RATIO: Final = 16.0
"""That response of most groups over their scales, up to which it counts: beyond, the reference rounds little
on the way, or to eight bits on purpose, which such perturbations undo."""
GAP_BITS: Final = 6
"""Powers of two without an element that set apart those that stand out, such as scores masked by -1e9: a
group's scale is a share of its size, and they would excuse all others. What is left is compared apart."""
SHARE_BELOW_GAP: Final = 1 / 32
"""Share of the elements that are not zero that lie below such a gap at least: sizes have thin tails."""
FEWEST_BELOW_GAP: Final = 64
"""Such elements at least."""
REST_FACTOR: Final = 4.0
"""Times the limit that what is left may err: there is no second look at it. Beside scores of -1e9, answers of
zeros err a million scales, honest kernels one or two."""
SMALL_GROUP: Final = 32
"""Elements a group has at least, where the output has as many: fewer give no stable root mean square."""
SMALL_INPUT_SHARE: Final = 1 / 32
"""Share of the usual scale that outputs of tiny inputs may err: numbers near one on the way, as in
`exp(x) - 1`, take two units of it at most, and limits are many units."""
SMALL_INPUT_BITS: Final = 11
"""Bits that must be correct in outputs of tiny inputs all the same."""

# Elements where rounding decides: ties, comparisons, roundings on purpose.
TIE_DRAWS: Final = 6
"""Perturbed evaluations that look for elements that flip."""
MORE_TIE_DRAWS: Final = 12
"""Perturbed evaluations where the first found any: in those two compared numbers may have moved alike."""
TIE_ROUNDOFF: Final = 2.0**-21
"""Perturbation that finds ties: eight units of float32."""
LATE_TIE_DRAWS: Final = 12
"""Perturbed evaluations more, by `LATE_TIE_ROUNDOFF`, once a candidate is wrong in few places: the first ones
met 14 of 17 decisions that honest kernels took the other way."""
LATE_TIE_ROUNDOFF: Final = 2.0**-20
"""Perturbation of these: twice `TIE_ROUNDOFF`."""
TINY_TIE_ROUNDOFF: Final = 2.0**-9
"""The same for whole numbers of tiny inputs, as much as of the problem's own: other numbers are not tiny."""
FAR_ROUNDOFF: Final = 2.0**-10
"""Largest perturbation that looks for a rare jump; beyond, most of a change follows smoothly."""
FAR_DRAWS: Final = 2
"""Bisections from the largest perturbation down, per output; the largest jump counts. One bisection each of
34 routings of 16,384 tokens to eight experts found that 9 or 10 elements jump together; once, 2."""
MAX_UNSETTLED: Final = 0.01
"""Share of an output that may hang on rounding; beyond, it is compared as if none did."""
MAX_TIES: Final = 0.25
"""The same of whole numbers: of 2,000 logits in bfloat16 the largest is one of several in every tenth row."""
ROUNDED_TIE_DRAWS: Final = 12
"""Perturbed evaluations without wider arithmetic: sums on the way may be far larger than what decides."""
HALF_TIE_DRAWS: Final = 6
"""Perturbed evaluations, by twice half precision's eps, that look for whole numbers it decides."""
FAR_JUMP: Final = 100.0
"""Times the limit that an element must change by to count as a jump under the largest perturbation."""
TIE_JUMP: Final = 4.0
"""Times the limit under a perturbation of a few roundoffs: one more in a bin is little beside thousands."""
FEW_FLIPS: Final = 8
"""Elements of a small output that may jump at once: bins of a histogram do in pairs."""
FEW_FLIPS_SHARE: Final = 1 / 8
"""Share of a small output that may jump at once."""
FLIP_LEEWAY: Final = 2.0
"""Times more elements that may flip in timed outputs than did in verified ones."""
MAX_FLIPPED: Final = 0.05
"""Share of all timed elements that may flip: one decision may change all of an output, but seldom does."""
FLIP_PEAK: Final = 4.0
"""An element of a short group counts as flipped beyond the root of the group's size over this, in limits."""

# Timed outputs, which are compared with the baseline's.
BASELINE_ERROR: Final = 8.0
"""Scales the baseline may err itself: the scale is no less than its error where that was measured."""
MAX_DOUBTED_CALLS: Final = 4
"""Calls of a batch that may err more than expected and are compared with exact outputs; more are wrong."""
MAX_DOUBTED_SHARE: Final = 0.25
"""The same as a share of a larger batch: of more systems to solve more are nearly singular."""
FEW_ZEROS: Final = 0.01
"""Share of zeros that tell nothing by their places."""
MAX_INDEX_FLIPS: Final = 1e-4
"""Share of whole numbers that may differ from the baseline's where verification saw no ties: of the many
thousand rows that are timed, some have two equal maxima, and either place is right."""
FEW_INDEX_FLIPS: Final = 8
"""Whole numbers that may differ in any case, since calls with one are compared with exact outputs until then.
Of rows of 2,039 elements one in 40,000 has two equal maxima: of those timed for one kernel, one to four."""
FEW_INDEX_SHARE: Final = 1 / 64
"""Share of a batch's whole numbers that are as few at most; one in any case. A mask may have four marks."""
USUAL_VALUE_SAMPLE: Final = 65536
"""Elements looked at for the most frequent value of a mask."""
SMALLEST_SCALE: Final = 1e-37
"""Scale of a group of zeros, to divide by."""
NEARLY_MEAN: Final = 1 - 1e-9
"""Share of the root mean square group size from which on a group counts as large."""

# Trials.
INPUT_DRAWS: Final = 2
"""Unchanged draws of a problem's inputs: a constant output would pass one."""
FINITE_SHARE: Final = 0.9
"""Share of the finite output elements of a plain draw that a varied one must keep."""
SOLVED_TRIALS_BYTES: Final = 1 << 30
"""Memory for solved trials where the caller names none."""
CHUNK_ELEMENTS: Final = 1 << 24
"""Elements handled at once, to bound the memory of intermediate results."""
AROUND, BELOW, NEAR = (2 / 3, 4 / 3), (1 / 2, 1.0), (0.98, 1.0)
"""Factors on the inputs of timed calls, from the widest to those for references finite on nothing else."""
FEWEST_SCATTERED: Final = 32
"""Elements an input needs for signs and spikes: on those of a scalar an output may not stay finite."""
RELATIVE_QUANTILE: Final = 0.75
"""Share of an output's elements whose relative error is held, on the problem's own and on timed inputs."""
RELATIVE_SAMPLE: Final = 1 << 16
"""Elements of a large output that are looked at for that."""
FEWEST_RELATIVE: Final = 64
"""Elements that are neither zero nor tiny from which on it is."""
SMALLEST_RELATIVE: Final = 1e-30
"""Size from which on a relative error says something: some arithmetic flushes smaller numbers to zero."""
LEAST_RELATIVE_ERROR: Final = 1e-3
"""Relative error that is allowed in any case, half a rounding to bfloat16: this is about guesses."""
RARER_SIGN: Final = 0.25
"""Share of the rarer sign in the sum of absolute values up to which an input counts as of one sign: a SiLU of
normal numbers has 0.24."""
SPIKES: Final = (8.0, 16.0)
"""Least and largest factor of an element that stands out."""
SHRUNK_BITS: Final = (3.0, 12.0)
"""Least and most powers of two by which an element is shrunk: of 4096 uniform numbers most then come below
the least one."""
SPIKE_SPACING: Final = (256, 16384)
"""Least and most elements per spike; one per row between."""

# Larger weights.
MOST_WORSE: Final = 16.0
"""Times that the scale of an output's errors, relative to its size, may grow under larger weights. Of 57
references at small sizes none grows more than 5.6 times; a recurrence that they make chaotic grows
without bound, and its limits would excuse anything."""
EXACT_ENOUGH: Final = 2.0**-18
"""Such a scale at which it does not matter how much it grew."""

# Verification.
VERIFY_CALLS: Final = 4
"""Calls whose buffers are laid out side by side."""
FEWEST_VERIFY_CALLS: Final = 2
"""The same where memory is short: a later call must leave an earlier output alone."""
VERIFY_MEMORY_SHARE: Final = 0.05
"""Share of the free device memory for those buffers."""
GUARD_MEMORY_SHARE: Final = 1 / 8
"""Share of the free memory that tensors between guard pages take; what finds no room stays elsewhere."""
RETRIES: Final = 2
"""Repeats of a wrong call, to tell a wrong candidate from a nondeterministic one."""
REMARK_CHARACTERS: Final = 400
"""Characters of a second failure that are quoted in the first."""
SHOWN_ELEMENTS: Final = 5
"""Wrong elements that a mismatch names."""
EVERYTHING_OFF: Final = 0.99
"""Share of wrong elements described as all of them."""

# Other shapes of a problem.
SMALLEST_EXTENT: Final = 64
"""Constants up to this stay: they are kernel sizes, heads and groups more often than extents."""
EXTENT_FLOORS: Final = (128, 64, 32)
"""Extents are not scaled below: a tiled kernel needs several tiles for its tiles to race."""
EXTENT_SHIFT: Final = 5
"""Powers of two that extents are scaled down by."""
MEMORY_RATIO: Final = 2
"""Times the evaluated shapes' memory that other shapes may need."""
SPARE_BYTES: Final = 64 << 20
"""Memory that other shapes may need on top."""
OTHER_SHAPES: Final = 2
"""Other shapes a candidate is tried at."""
