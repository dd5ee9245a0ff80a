"""The reference: what it keeps between calls, and what of it cannot be handed over."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from kernelwright.evaluator.ipc.model_init import construct, load_state
from kernelwright.evaluator.referee.correctness.comparison import agrees
from kernelwright.evaluator.referee.correctness.trial_cache import count_finite
from kernelwright.evaluator.referee.correctness.verification import consecutive, poison
from kernelwright.evaluator.referee.problem_check.inspection import known_flaws
from kernelwright.evaluator.referee.reference.effects import equal_outputs, same_values
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference, copied
from kernelwright.evaluator.schema.errors import DeviceFull, ProblemError
from tests.evaluator.referee.references import pool_of, reference_of

SOURCE = """
import random, torch
from torch import nn
class Model(nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
    def forward(self, x, *more):
        x = self.linear(x)
        {body}
def get_inputs():
    return {inputs}
def get_init_inputs():
    return {init}
"""
STATEFUL = {
    "written": "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1); return x - self.mean",
    "replaced": "self.mean = 0.9 * self.mean + 0.1 * x.mean(0); return x - self.mean",
    "counted": "self.count += 1; return x * self.count",
}


def _reference(
    body: str = "return x", *, inputs: str = "[torch.randn(8, 16)]", init: str = "[]", dtype: str = "as_is"
) -> Reference:
    source = SOURCE.format(body=body, inputs=inputs, init=init)
    return reference_of(source, dtype)


@pytest.mark.parametrize("body", STATEFUL.values(), ids=STATEFUL)
def test_a_call_starts_where_the_model_was_made_and_a_row_of_calls_goes_on(body: str) -> None:
    reference = _reference(body)
    model, arguments = reference.model(1), reference.inputs(2)
    output = reference.call(model, arguments)
    first = output.leaves[0]
    assert output.wrote_state
    assert not reference.effects.inputs
    assert output.effects.state
    assert torch.equal(reference.call(model, arguments).leaves[0], first)
    pool = pool_of(reference, 3)
    trials = pool.draws[0].trials[:3]
    by_hand = reference.model(pool.draws[0].seed, vary=pool.draws[0].vary)
    with torch.no_grad():
        right = [by_hand(*trial.arguments.leaves) for trial in trials]
    row = [
        expected.output.leaves[0]
        for expected in consecutive(reference, pool.draws[0], trials, "fp32", pool.trace)
    ]
    assert all(map(torch.equal, row, right))
    assert not torch.equal(row[1], trials[1].expected.output.leaves[0])


def test_a_reference_without_state_answers_a_row_as_it_answers_one() -> None:
    reference = _reference()
    pool = pool_of(reference, 3)
    trials = pool.draws[0].trials[:2]
    row = list(consecutive(reference, pool.draws[0], trials, "fp32", pool.trace))
    assert not pool.trace.keeps_state
    assert row == [trial.expected for trial in trials]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"inputs": "[torch.eye(16).to_sparse()]"}, "sparse_coo"),
        ({"inputs": "[torch.randn(8, 16), torch.eye(16).to_sparse()]"}, "sparse_coo"),
        ({"body": "return x.to_sparse()"}, "sparse_coo"),
        ({"body": "return torch.nested.nested_tensor([x[0], x[1, :4]])"}, "nested"),
        ({"body": "self.mean += 1; return x, self.mean"}, "returns a buffer"),
        ({"inputs": "[torch.randn(8, 16), random.randint(0, 1 << 40)]"}, "plain arguments"),
        ({"inputs": "[torch.randn(random.randint(2, 999), 16)]"}, "the same shapes"),
        ({"inputs": "[torch.randn(8, 16), {random.random(): 1}]"}, "plain arguments"),
        ({"body": "return x[x > 0]"}, "outputs of different shapes"),
    ],
)
def test_what_cannot_be_judged_is_named(fields: dict[str, str], named: str) -> None:
    with pytest.raises(ProblemError, match=named):
        pool_of(_reference(**fields), 3)


def test_numbers_of_numpy_are_handed_over_as_numbers() -> None:
    numpy = "(__import__('numpy'))"
    made = _reference(
        init=f"[{numpy}.int64(3), {numpy}.float32(0.5), {numpy}.bool_(True), {numpy}.arange(2)[1]]"
    )
    args, _ = made.init_arguments().values()
    assert args == [3, 0.5, True, 1]
    assert [type(value) for value in args] == [int, float, bool, int]


def test_complex_inputs_are_answered_in_double_precision_too() -> None:
    body = "return torch.fft.fft(more[0]) * self.linear.weight[0, 0]"
    reference = _reference(body, inputs="[torch.randn(8, 16), torch.randn(8, 64, dtype=torch.complex64)]")
    expected = pool_of(reference, 3).bases[0].expected
    assert expected.in_double
    own = torch.view_as_real(expected.output.leaves[0]).double()
    assert 0.0 < float((own - expected.leaves[0].exact).abs().max()) < 1e-4


@pytest.mark.parametrize(
    "body",
    [
        "return (x * 2).to(torch.float8_e4m3fn)",
        "return (x * 2).to(torch.float8_e5m2)",
        "return x.abs().mul(99).to(torch.uint16)",
        "return more[0].float() @ x",
        "return x.abs().mul(99).to(torch.uint64), x > 0",
    ],
)
def test_types_torch_computes_little_with_are_judged(body: str) -> None:
    reference = _reference(body, inputs="[torch.randn(16, 16), torch.randn(16, 16).to(torch.float8_e5m2)]")
    pool = pool_of(reference, 3)
    assert known_flaws(reference, pool) == []
    expected = pool.bases[0].expected
    assert agrees(expected, expected.output.leaves, limit=192.0)
    halves = [(leaf.double() / 2).to(leaf.dtype) for leaf in expected.output.leaves]
    assert not agrees(expected, halves, limit=192.0)
    for leaf in expected.output.leaves:
        place = leaf.clone()
        poison(place, leaf)
        assert not same_values(place, leaf)
        assert same_values(leaf, leaf.clone())


def test_a_list_and_a_dictionary_are_two_arguments_where_no_others_fit() -> None:
    pair = "[[torch.randn(8, 16)], {'k': 2.0}]"
    as_pair = _reference("return x", inputs=pair, init="[[1, 2], {}]")
    assert len(as_pair.inputs(1).values()[0]) == 2, "forward takes any two"
    source = SOURCE.format(body="return x * k", inputs=pair, init="[[1, 2], {}]")
    named = reference_of(source.replace("*more", "k"))
    args, kwargs = named.inputs(1).values()
    assert (len(args), kwargs) == (1, {"k": 2.0})
    assert named.init_arguments().values() == ([1, 2], {})
    other = reference_of(source.replace("*more", "o"))
    assert other.inputs(1).values()[1] == {}


def test_a_full_device_does_not_change_what_a_seed_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shortage says nothing about `get_inputs`: drawn elsewhere, its inputs would be others."""
    reference = _reference()
    monkeypatch.setattr(reference, "_draws_on_device", True)
    draws, devices = reference._drawn, []

    def drawn(seed: int) -> Arguments:
        devices.append(torch.get_default_device())
        if len(devices) == 1:
            with reference._as_problem_error("get_inputs() failed"):
                raise RuntimeError("CUDA error: out of memory")
        return draws(seed)

    monkeypatch.setattr(reference, "_drawn", drawn)
    with torch.device("meta"), pytest.raises(DeviceFull):
        reference.inputs(1)
    with torch.device("meta"):
        reference.inputs(1)
    assert devices == [torch.device("cpu")] * 2


def test_nan_equals_nan_only() -> None:
    one = torch.tensor([1.0, float("nan")])
    assert same_values(one, one.clone())
    assert not same_values(one, torch.tensor([1.0, 0.0]))


def test_a_model_that_takes_its_shapes_from_its_first_call_gets_a_contestants_weights() -> None:
    lazy = "[torch.randn(8, 16), torch.randn(8, 5)]"
    source = SOURCE.format(body="return self.lazy(x)", inputs=lazy, init="[]")
    source = source.replace("nn.Linear(16, 16)", "nn.Linear(16, 16); self.lazy = nn.LazyLinear(3)")
    reference = reference_of(source)
    model, arguments = reference.model(5), reference.inputs(6)
    own = construct(vars(reference)["_module"].Model, [], {}, 5, vary=False)
    with torch.no_grad():
        answer = own(*arguments.leaves)
    assert torch.equal(reference.call(model, arguments).leaves[0], answer)
    other = construct(vars(reference)["_module"].Model, [], {}, 7, vary=False)
    load_state(other, model.state_dict())
    with torch.no_grad():
        assert torch.equal(other(*arguments.leaves), answer)


def test_one_varied_trial_is_drawn_anew_at_a_time() -> None:
    pool = pool_of(_reference(), 3)
    pool.begin_candidate()
    before = list(pool.draws[0].trials)
    pool.begin_candidate()
    after = pool.draws[0].trials
    new = [one for one, other in zip(after, before, strict=True) if one is not other]
    old = [other for one, other in zip(after, before, strict=True) if one is not other]
    assert [trial.name for trial in after] == [trial.name for trial in before]
    assert len(new) == 1
    assert after[0] is before[0]
    assert not torch.equal(new[0].arguments.leaves[0], old[0].arguments.leaves[0])
    assert new[0].limit == old[0].limit


def test_timed_calls_get_trials_on_inputs_that_no_candidate_was_verified_on() -> None:
    pool = pool_of(_reference(), 3)
    pool.draw_unseen()
    verified = [trial.arguments.leaves[0] for trial in pool.draws[0].trials]
    assert {"large", "tiny", "sparse", "outliers"} <= {trial.name for trial in pool.unseen}
    for trial in pool.unseen:
        assert not any(torch.equal(trial.arguments.leaves[0], leaf) for leaf in verified)
    pool.begin_candidate()
    before = list(pool.unseen)
    pool.begin_candidate()
    assert sum(one is not other for one, other in zip(pool.unseen, before, strict=True)) == 1
    first, second = pool.take_unseen(), pool.take_unseen()
    assert [trial.name for trial in first] == [trial.name for trial in second]
    assert not set(map(id, first)) & set(map(id, second))


def test_trials_are_drawn_again_alike_whatever_the_threads() -> None:
    """Vectors and the elements left over differ in their last bits, and threads decide which are which."""
    reference = _reference("return more[0] * 2", inputs="[torch.randn(8, 16), torch.randn(797, 1999)]")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        pool = pool_of(reference, 1, memory_bytes=0)
        torch.set_num_threads(1)
        for trial in pool.draws[0].trials:
            assert trial.solved.arguments.leaves[1].shape == (797, 1999)
    finally:
        torch.set_num_threads(threads)


def test_where_inputs_cannot_vary_trials_stay() -> None:
    inputs = "[torch.full((8, 16), torch.inf), torch.randint(0, 9, (8, 16))]"
    pool = pool_of(_reference("return more[0] * 2", inputs=inputs), 3)
    before = list(pool.draws[0].trials)
    pool.begin_candidate()
    pool.begin_candidate()
    assert pool.draws[0].trials == before


def test_a_near_duplicate_stays_near_what_every_candidate_sees_first() -> None:
    pool = pool_of(_reference(), 3)
    first = pool.draws[0].trials[0].arguments.leaves[0]
    seen = []
    for _ in range(40):
        pool.begin_candidate()
        duplicate = next(trial for trial in pool.draws[0].trials if trial.name == "near_duplicate")
        changed = int((duplicate.arguments.leaves[0] != first).sum())
        assert 0 < changed <= 3
        seen.append(duplicate)
    assert len(set(map(id, seen))) > 1


def test_inputs_of_numpys_own_generator_come_again_under_their_seed() -> None:
    reference = _reference(inputs="[torch.from_numpy(__import__('numpy').random.rand(8, 16)).float()]")
    one, again, other = (reference.inputs(seed).leaves[0] for seed in (2**47, 2**47, 6))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_copy_has_what_a_model_worked_out_from_its_parameters() -> None:
    model = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)))
    model.kept = [{"scale": model[0].weight_g.exp()}]
    x = torch.randn(3, 4)
    answer = model(x)
    copy = copied(model)
    assert torch.equal(copy(x), answer)
    assert torch.equal(copy.kept[0]["scale"], model.kept[0]["scale"])
    with torch.no_grad():
        copy[0].weight_g.add_(1)
    assert torch.equal(model(x), answer)
    assert not torch.equal(copy(x), answer)


def test_a_model_that_has_no_copy_is_named() -> None:
    model = nn.Linear(4, 4)
    model.lock = threading.Lock()
    with pytest.raises(ProblemError, match=r"cannot be copied: .*lock"):
        copied(model)


@pytest.mark.parametrize(
    ("factor", "off"), [("self.factor * x", True), ("x", True), ("self.factor.sqrt() * x", False)]
)
def test_what_is_timed_has_no_parameters_that_are_constants(factor: str, off: bool) -> None:
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.factor = nn.Parameter(torch.zeros(64))\n"
        f"    def forward(self, x):\n        return x + {factor}\n"
        "def get_inputs():\n    return [torch.randn(64)]\n"
    )
    reference = reference_of(source)
    pool = pool_of(reference, 3)
    assert [draw.vary for draw in pool.draws] == [off, not off]
    assert bool((pool.draws[0].model.get_parameter("factor") == 0).all()) is not off


@pytest.mark.parametrize(
    "body", ["assert self.scale == 1; return x", "return x + (-self.scale.square()).sqrt()"]
)
def test_a_second_draw_that_says_nothing_has_the_parameters_as_made(body: str) -> None:
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.ones(()) if 'assert' in BODY else torch.zeros(()))\n"
        "    def forward(self, x):\n        BODY\n"
        "def get_inputs():\n    return [torch.randn(64)]\n"
    )
    source = source.replace("'assert' in BODY", repr("assert" in body)).replace("BODY", body)
    pool = pool_of(source, 3)
    for draw in pool.draws:
        assert any(map(count_finite, draw.trials[0].expected.output.leaves))
    assert pool.constant_inputs == ("scale",)


def test_timed_calls_are_held_to_the_model_that_is_timed() -> None:
    reference = _reference()
    pool = pool_of(reference, 3)
    for trial in pool.starts().trials:
        found = reference.call(pool.draws[0].model, trial.arguments)
        assert equal_outputs(found.leaves, trial.expected.output.leaves)
