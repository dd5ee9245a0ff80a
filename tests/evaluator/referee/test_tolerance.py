"""Decisions that hang on rounding have several right answers, and only those."""

from __future__ import annotations

from dataclasses import replace

import numpy
import pytest
import torch

from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.groups import bulk_rms
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.policy import MOST_USUAL_EPS, OTHER_LIMIT, REDUCED_LIMIT
from kernelwright.evaluator.referee.correctness.tolerance import Expected, _scale, expect
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from tests.evaluator.referee.references import pool_of, reference_of

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))
    def forward(self, x, *more):
        {body}
def get_inputs():
    {inputs}
"""
ROUNDED = SOURCE.format(
    body="s = x.abs().amax(-1, keepdim=True) / 127; return torch.round(x / s) * s",
    inputs="x = torch.randn(64, 256); x[:, 0] = 127.0; x[3, 7] = 3.5; return [x]",
)
NEAREST = SOURCE.format(
    body="return more[0][(x[:, None] - more[0]).square().sum(-1).argmin(1)]",
    inputs="c = torch.randn(32, 8); c[0], c[1] = 9.0, 11.0; x = torch.randn(512, 8); x[3] = 10.0; "
    "return [x, c]",
)
NARROW = SOURCE.format(
    body="s = x.float().abs().amax(-1, keepdim=True) / 127; return torch.round(x.float() / s).char(), s",
    inputs="return [torch.randn(256, 1024, dtype=torch.bfloat16)]",
)
GRAY = SOURCE.format(
    body="return (x.float() * self.weight).sum(1).round().clamp(0, 255).byte()",
    inputs="return [torch.randint(0, 256, (4, 3, 256, 256), dtype=torch.uint8)]",
)
BINS = SOURCE.format(
    body="return torch.histc(x, 64, -3, 3)",
    inputs="x = torch.randn(100_000); x[:3] = torch.tensor([0.375, 0.75, -1.5]); return [x]",
)
WIDENED = SOURCE.format(
    body="return (x @ more[0]).float()",
    inputs="return [torch.randn(64, 256, dtype=torch.bfloat16), torch.randn(256, 64, dtype=torch.bfloat16)]",
)
SMOOTH = SOURCE.format(body="return torch.relu(x).softmax(-1)", inputs="return [torch.randn(32, 64)]")


def _accepts(trial: Trial, *outputs: torch.Tensor) -> bool:
    return compare(trial.expected, list(outputs), limit=trial.limit, trial="t").mismatch is None


def _with(expected: Expected, place: tuple[int, ...], value: float | torch.Tensor) -> torch.Tensor:
    output = expected.output.leaves[0].clone()
    output[place] = value
    return output


def test_a_tie_may_be_rounded_either_way_and_no_other() -> None:
    trial = pool_of(ROUNDED, 5).bases[0]
    for value in (3.0, 4.0):
        assert _accepts(trial, _with(trial.expected, (3, 7), value))
    for value in (2.0, 3.5, 5.0, 0.0, float("nan")):
        assert not _accepts(trial, _with(trial.expected, (3, 7), value))
    settled = float(trial.expected.output.leaves[0][3, 9])
    for value in (settled + 1, settled - 1):
        assert not _accepts(trial, _with(trial.expected, (3, 9), value))


def test_of_two_as_near_either_may_be_taken_and_no_other() -> None:
    trial = pool_of(NEAREST, 5).bases[0]
    codes = trial.arguments.leaves[1]
    assert _accepts(trial, _with(trial.expected, (3,), codes[0]))
    assert _accepts(trial, _with(trial.expected, (3,), codes[1]))
    assert not _accepts(trial, _with(trial.expected, (3,), codes[2]))
    assert not _accepts(trial, _with(trial.expected, (3,), 0.0))
    assert not _accepts(trial, _with(trial.expected, (4,), codes[0]))
    second = (
        (trial.arguments.leaves[0][:, None] - codes).square().sum(-1).topk(2, largest=False).indices[:, 1]
    )
    assert not _accepts(trial, codes[second])


def test_narrower_arithmetic_before_a_decision_is_still_found() -> None:
    trial = pool_of(ROUNDED, 5).bases[0]
    (x,) = trial.arguments.leaves
    s = x.abs().amax(-1, keepdim=True) / 127
    assert _accepts(trial, torch.round(x * (1 / s)) * s)
    assert not _accepts(trial, torch.round((x / s).bfloat16().float()) * s)
    assert not _accepts(trial, torch.floor(x / s) * s)


def test_ties_of_narrow_inputs_may_go_either_way() -> None:
    trial = pool_of(NARROW, 5).bases[0]
    (x,) = trial.arguments.leaves
    rounded, s = trial.expected.output.leaves
    largest = x.float().abs().amax(-1, keepdim=True)
    other = torch.round(x.float() * (127 / largest)).char()
    assert not torch.equal(other, rounded)
    assert _accepts(trial, other, s)
    assert not _accepts(trial, torch.round(x.float() * (127 / largest) + 0.01).char(), s)
    assert not _accepts(trial, torch.round((x / s.bfloat16()).float()).char(), s)


def test_whole_numbers_that_hang_on_a_buffer_alone_have_ties_too() -> None:
    trial = pool_of(GRAY, 5).bases[0]
    red, green, blue = trial.arguments.leaves[0].float().unbind(1)
    own = 0.114 * blue + 0.587 * green + 0.299 * red
    assert not torch.equal(own.round().byte(), trial.expected.output.leaves[0])
    assert _accepts(trial, own.round().byte())
    assert not _accepts(trial, (own + 0.02).round().byte())


@pytest.mark.parametrize(("source", "decides"), [(ROUNDED, True), (NEAREST, True), (SMOOTH, False)])
def test_only_what_decides_is_looked_at_for_jumps(source: str, decides: bool) -> None:
    pool = pool_of(source, 5)
    jumps = [leaf.jumps for trial in pool.draws[0].trials for leaf in trial.expected.leaves]
    assert any(jump is not None for jump in jumps) is decides


def test_an_element_at_a_threshold_may_be_left_out_as_infinity_or_not() -> None:
    source = SOURCE.format(
        body="return torch.where(x > 1.5, x, -torch.inf)", inputs="return [torch.randn(64, 128)]"
    )
    reference = reference_of(source)
    model, arguments = reference.model(1), reference.inputs(1)
    x = arguments.leaves[0]
    x[5, 7], x[9, 11] = 1.5, 1.6
    expected = expect(reference, model, arguments, "fp32", trace_call(reference, model, arguments))
    for least in (1.4999999, 1.5):
        got = torch.where(x > least, x, -torch.inf)
        assert compare(expected, [got], limit=100.0, trial="").mismatch is None
    got[9, 11] = -torch.inf
    assert compare(expected, [got], limit=100.0, trial="").mismatch is not None


def test_whole_numbers_may_hang_on_roundings_on_the_way() -> None:
    body = "return torch.log_softmax(x, -1).topk(4, -1).indices"
    pool = pool_of(SOURCE.format(body=body, inputs="return [torch.randn(512, 500)]"), 5)
    (tiny,) = (trial for trial in pool.draws[0].trials if trial.name == "tiny")
    own = tiny.arguments.leaves[0].topk(4, -1).indices
    assert (own != tiny.expected.output.leaves[0]).any()
    assert compare(tiny.expected, [own], limit=tiny.limit, trial="").mismatch is None
    own[0, 0] += 1
    assert compare(tiny.expected, [own], limit=tiny.limit, trial="").mismatch is not None


def test_equal_integers_may_be_in_any_order() -> None:
    inputs = "return [torch.randint(0, 1 << 16, (64, 512), dtype=torch.int32)]"
    trial = pool_of(SOURCE.format(body="return torch.sort(x, -1)", inputs=inputs), 5).bases[0]
    x = trial.arguments.leaves[0]
    values, places = torch.sort(x.flip(-1), dim=-1, stable=True)
    own = x.shape[-1] - 1 - places
    assert (own != trial.expected.output.leaves[1]).any()
    assert compare(trial.expected, [values, own], limit=trial.limit, trial="").mismatch is None
    coarse = torch.sort(x >> 4, dim=-1, stable=True).indices
    assert compare(trial.expected, [values, coarse], limit=trial.limit, trial="").mismatch is not None
    assert compare(trial.expected, [values + 1, own], limit=trial.limit, trial="").mismatch is not None


def test_whole_numbers_may_hang_on_roundings_to_half_precision() -> None:
    source = SOURCE.format(body="return x.bfloat16().argmax(-1)", inputs="return [torch.randn(512, 500)]")
    trials = pool_of(source, 5).draws[0].trials
    for trial in trials:
        own = trial.arguments.leaves[0].argmax(-1)
        assert compare(trial.expected, [own], limit=trial.limit, trial="").mismatch is None, trial.name
        coarse = trial.arguments.leaves[0].to(torch.float8_e4m3fn).float().argmax(-1)
        if trial.name in {"as_drawn", "zero_mean"}:
            assert compare(trial.expected, [coarse], limit=trial.limit, trial="").mismatch is not None


def test_what_jumps_nearly_everywhere_is_held_to_one_answer() -> None:
    source = SOURCE.format(body="return torch.frac(x * 2.0**26)", inputs="return [torch.randn(32, 64)]")
    assert pool_of(source, 5).bases[0].expected.leaves[0].jumps is None


def test_a_jump_that_no_draw_meets_is_found_on_the_way_to_farther_inputs() -> None:
    source = NEAREST.replace("x[3] = 10.0; ", "").replace("512", "1024")
    pool = pool_of(source, 5)
    jumps = [trial.expected.leaves[0].jumps for trial in pool.starts().trials]
    assert [(jump.share, jump.most) for jump in jumps if jump is not None][-1] == (0.0, 8)


def test_what_only_looks_like_deciding_has_no_jumps() -> None:
    source = SOURCE.format(body="return x - x.max(-1).values[:, None]", inputs="return [torch.randn(64, 64)]")
    trials = pool_of(source, 5).draws[0].trials
    assert all(trial.expected.leaves[0].jumps is None for trial in trials)


@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_who_asks_for_double_precision_throughout_gets_it(kind):
    drawn = f"torch.randn(32, 512, dtype=torch.{kind})"
    source = SOURCE.format(body="return x @ more[0].mT", inputs=f"return [{drawn}, {drawn}]")
    wide = getattr(torch, kind)
    narrow = torch.complex64 if wide.is_complex else torch.float32
    throughout = source.replace("0.587, 0.114]", "0.587, 0.114], dtype=torch.float64")
    for trial in pool_of(throughout, 5).draws[0].trials:
        left, right = trial.arguments.leaves
        assert not _accepts(trial, (left.to(narrow) @ right.to(narrow).mT).to(wide))
        one_after_another = sum(left[:, [k]] * right[:, k] for k in range(512))
        assert isinstance(one_after_another, torch.Tensor)
        assert _accepts(trial, one_after_another)


def test_who_keeps_some_in_single_precision_may_compute_in_it():
    drawn = "torch.randn(32, 512, dtype=torch.float64)"
    source = SOURCE.format(body="return x @ more[0].mT", inputs=f"return [{drawn}, {drawn}]")
    trial = pool_of(source, 5).bases[0]
    left, right = trial.arguments.leaves
    assert _accepts(trial, (left.float() @ right.float().mT).double())


def test_a_narrow_product_that_is_widened_may_be_computed_in_more_and_not_in_less() -> None:
    for trial in pool_of(WIDENED, 5).draws[0].trials:
        x, weight = trial.arguments.leaves
        assert _accepts(trial, x.float() @ weight.float())
        assert _accepts(trial, (x @ weight).float())
        assert not _accepts(trial, x[:, :-4].float() @ weight[:-4].float())
        assert not _accepts(trial, (x @ weight).to(torch.float8_e4m3fn).float())


def test_a_number_at_the_border_of_two_bins_may_be_counted_in_either() -> None:
    trial = pool_of(BINS, 5).bases[0]
    (x,) = trial.arguments.leaves
    assert trial.expected.leaves[0].jumps is not None
    exact = trial.expected.output.leaves[0]
    lower = exact.clone()
    lower[36] -= 1  # 0.375 is where it begins
    lower[35] += 1
    assert _accepts(trial, lower)
    lower[35] += 1
    assert not _accepts(trial, lower)
    assert not _accepts(trial, torch.histc(x.bfloat16().float(), 64, -3, 3))


def test_rows_of_zeros_carry_the_rounding_of_what_was_cut_off() -> None:
    source = SOURCE.format(
        body="return torch.relu(x)", inputs="x = torch.ones(64, 128); x[1::2] = -1.0; return [x]"
    )
    reference = reference_of(source)
    model, arguments = reference.model(1), reference.inputs(1)
    (leaf,) = expect(reference, model, arguments, "fp32", trace_call(reference, model, arguments)).leaves
    scale = leaf.scale
    eps = torch.finfo(torch.float32).eps
    assert scale is not None and scale.shape == (64,)
    assert torch.allclose(scale[1::2], torch.tensor(0.5**0.5 * eps / 16).double(), rtol=1e-2)
    assert (scale[::2] >= eps / 4).all()


def test_outputs_of_several_types_have_scales_of_their_own() -> None:
    source = SOURCE.format(
        body="return x.argmax(-1), x.bfloat16().float() * 3, x * 3", inputs="return [torch.randn(64, 128)]"
    )
    reference = reference_of(source)
    model, arguments = reference.model(1), reference.inputs(1)
    found = expect(reference, model, arguments, "fp32", trace_call(reference, model, arguments))
    assert [leaf.scale is None for leaf in found.leaves] == [True, False, False]
    assert found.leaves[2].precision is torch.float32


def test_without_the_roundings_of_a_half_an_error_may_be_what_it_always_may() -> None:
    """Limits are those of half precision then, twelve times tighter; the scale makes up for it."""
    best, eps = torch.ones(64, 128, dtype=torch.float64), torch.finfo(torch.float32).eps
    own, other = (best + 32 * eps).float(), (best + 4 * eps).float()
    halved, plain = (_scale(own, best, other, half=half) for half in (torch.bfloat16, None))
    assert (halved.half, plain.half) == (torch.bfloat16, None)
    for found, most in ((halved, 4 * eps * OTHER_LIMIT / REDUCED_LIMIT), (plain, 32 * eps)):
        assert torch.allclose(found.scale, torch.tensor(most).double(), rtol=1e-3)


def test_a_plain_sum_is_far_inside_in_every_row() -> None:
    """In some of many rows the reference errs next to nothing, by chance."""
    source = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
def get_inputs():
    return [4 * torch.randn(1024, 2048)]
"""
    for trial in pool_of(source, 5).draws[0].trials:
        (x,) = trial.arguments.leaves
        powers = torch.exp(x - x.amax(1, keepdim=True))
        sums = numpy.add.accumulate(powers.numpy(), axis=1, dtype=numpy.float32)[:, -1:]
        found = compare(trial.expected, [powers / torch.from_numpy(sums)], limit=1e9, trial=trial.name)
        assert found.error_ratio < 0.4 * trial.limit, trial.name


def test_a_group_is_excused_by_no_more_than_is_usual_for_the_others() -> None:
    exact = torch.ones(64, 32, dtype=torch.float64)
    other = exact + 1e-4 * torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
    other[0] = exact[0]
    eps = torch.finfo(torch.float32).eps
    groups = _scale(exact.float(), exact, other, half=None).scale
    assert float(groups[0]) == pytest.approx(MOST_USUAL_EPS * eps)
    assert float(groups[1:].min()) > 5e-5


def test_a_group_that_one_perturbation_hardly_changed_is_measured_by_more_of_them_when_it_errs() -> None:
    expected = pool_of(SMOOTH, 5).bases[0].expected
    chance = replace(expected, leaves=[replace(expected.leaves[0], scale=_small(expected, 3))])
    own = _with(expected, (3,), expected.output.leaves[0][3] * (1 + 2.0**-20))
    found = compare(replace(chance, responses=None), [own], limit=16.0, trial="t")
    assert found.mismatch is not None
    assert compare(chance, [own], limit=16.0, trial="t").mismatch is None
    wrong = _with(expected, (3,), expected.output.leaves[0][3] * (1 + 2.0**-12))
    assert compare(chance, [wrong], limit=16.0, trial="t").mismatch is not None


def _small(expected: Expected, group: int) -> torch.Tensor:
    scale = expected.leaves[0].scale
    assert scale is not None
    changed = scale.clone()
    changed[group] /= 1000
    return changed


def test_what_jumps_is_not_measured_by_perturbations_that_make_it_jump() -> None:
    expected = pool_of(BINS, 5).bases[0].expected
    assert expected.leaves[0].jumps is not None
    (before,), (after,) = expected.leaves, expected.settled().leaves
    assert before.scale is not None
    assert after.scale is not None
    assert torch.equal(before.scale, after.scale)


def test_narrow_operands_show_in_most_groups_and_one_bad_group_says_nothing_of_operands() -> None:
    values = torch.randn(100, 64, dtype=torch.float64)
    error = torch.full_like(values, 1e-7)
    error[7] = 1.0
    assert bulk_rms(error, values) == pytest.approx(1e-7)
    error[::5] = 1e-4
    assert bulk_rms(error, values) == pytest.approx(1e-4)
    values[:95] = 0.0
    assert bulk_rms(error, values) == pytest.approx(1e-4), "groups of zeros hide nothing"


HALF_SCORES = SOURCE.format(
    body="k, v = more; return ((x @ k).float() / 8).softmax(-1).bfloat16() @ v",
    inputs="return [torch.randn(256, 64).bfloat16(), torch.randn(64, 512).bfloat16(), "
    "torch.randn(512, 64).bfloat16()]",
)


def _choose(x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return ((x.float() @ keys.float() / 8).softmax(-1) @ values.float()).bfloat16()


def test_a_row_that_hangs_on_a_rounding_to_half_precision_may_go_either_way() -> None:
    """The reference rounds scores of hundreds to eight bits; here they are not rounded, or keys are."""
    pool = pool_of(HALF_SCORES, 5)
    trials = [pool.bases[0], *filter(None, (pool._another("large") for _ in range(20)))]
    assert len(trials) == 21
    for seed, trial in enumerate(trials):
        x, keys, values = trial.arguments.leaves
        assert _accepts(trial, _choose(x, keys, values))
        torch.manual_seed(seed)
        nudged = keys.float() * (1 + 2.0**-9 * torch.rand(keys.shape).sub(0.5).sign())
        assert _accepts(trial, _choose(x, nudged, values))
        assert not _accepts(
            trial, _choose(x, keys.view(torch.int16).bitwise_and(-8).view(keys.dtype), values)
        )
        assert not _accepts(trial, _choose(x, keys, values * 1.25))
