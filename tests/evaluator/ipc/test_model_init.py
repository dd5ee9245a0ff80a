import random
import subprocess
import sys

import numpy
import pytest
import torch
from torch import nn

from kernelwright.evaluator.ipc.model_init import construct, load_state, varied_constants


class Builtin(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)


class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gamma = nn.Parameter(torch.ones(4))
        self.beta = nn.Parameter(torch.zeros(4))


def test_two_spellings_of_the_same_defaults_get_the_same_noise():
    left = construct(Builtin, [], {}, 7, vary=True)
    right = construct(ByHand, [], {}, 7, vary=True)
    assert torch.equal(left.norm.weight, right.gamma)
    assert torch.equal(left.norm.bias, right.beta)
    assert torch.equal(left.linear.weight, right.linear.weight)
    assert left.norm.weight.std() > 0.01


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.product = nn.Parameter(1e-6 * torch.ones(4))
        self.scalar = nn.Parameter(torch.tensor(1e-6))
        self.filled = nn.Linear(4, 3)
        self.filled.weight.data.fill_(1e-6)
        self.filled.bias.data.zero_()
        self.initialised = nn.Parameter(torch.rand(5))
        nn.init.constant_(self.initialised.data, 1e-6)


def test_constants_are_varied_however_they_are_made():
    model, again = (construct(Scaled, [], {}, 7, vary=True) for _ in range(2))
    assert all(float(value.detach().abs().max()) > 0.01 for value in model.parameters())
    assert all(map(torch.equal, model.parameters(), again.parameters()))


@pytest.mark.parametrize("constant", [1e-6, 0.07, 1.0, -0.2, -3.0])
def test_what_is_varied_keeps_its_sign(constant):
    made = construct(lambda: nn.Parameter(torch.full((1000,), constant)), [], {}, 7, vary=True).detach()
    assert bool((made * constant > 0).all())
    assert float(made.std()) > 0.1


def test_identities_are_varied_and_stay_near_one():
    class Near(nn.Module):
        def __init__(self, made):
            super().__init__()
            self.weight = made()

    eye, empty = torch.eye(64), torch.empty(64, 64)
    plain, initialised = (
        construct(Near, [made], {}, 7, vary=True).weight.detach()
        for made in (lambda: nn.Parameter(torch.eye(64)), lambda: nn.init.eye_(nn.Parameter(empty)))
    )
    assert torch.equal(plain, initialised)
    assert 0.01 < float((plain - eye).abs().max()) < 0.1
    assert torch.equal(construct(Near, [lambda: eye], {}, 7, vary=True).weight, torch.eye(64))


@pytest.mark.parametrize(
    "values",
    [
        torch.linspace(-2, 2, 16),
        torch.arange(16.0, 0.0, -1.0),
        torch.arange(1.0, 17.0).log().repeat(64, 1),
        torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]).repeat(8, 1, 1, 1),
    ],
    ids=["ascending", "descending", "steps of a state", "a filter of each channel"],
)
def test_what_is_regular_is_varied_and_keeps_order_and_signs(values):
    one, again = (
        construct(lambda: nn.Parameter(values.clone()), [], {}, 7, vary=True).detach() for _ in "ab"
    )
    assert torch.equal(one, again)
    assert bool(((one - values).abs() > 1e-4 * values.abs().max()).any())
    steps = values.diff(dim=-1)
    if bool((steps > 0).all()) or bool((steps < 0).all()):
        assert torch.equal(one.diff(dim=-1).sign(), steps.sign())
    else:
        assert torch.equal(one.sign(), values.sign())
    assert torch.equal(
        construct(lambda: nn.Parameter(values.clone()), [], {}, 7, vary=False).detach(), values
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Parameter(torch.randn(64, 64, generator=torch.Generator().manual_seed(3))),
        lambda: nn.Parameter(torch.linspace(0, 1, 64), requires_grad=False),
        lambda: nn.Parameter(2.0 * (torch.arange(4096).view(64, 64) % 3 == 0) - 1.0),
        lambda: nn.Parameter(torch.tril(torch.ones(64, 64)), requires_grad=False),
        lambda: nn.Parameter(torch.eye(64), requires_grad=False),
        lambda: nn.Parameter(torch.tensor(1 / 8), requires_grad=False),
    ],
    ids=["random", "grid never learned", "one bit", "mask", "identity never learned", "scale never learned"],
)
def test_what_a_candidate_may_know_stays_as_it_is(make):
    assert torch.equal(construct(make, [], {}, 7, vary=True), make())


class StatisticsByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("running_var", torch.ones(4))
        self.register_buffer("mask", torch.ones(4))


def test_running_statistics_are_varied_alike_however_they_are_made():
    built, by_hand = (
        construct(made, [], {}, 7, vary=True) for made in (lambda: nn.BatchNorm1d(4), StatisticsByHand)
    )
    for name in ("weight", "running_mean", "running_var"):
        assert torch.equal(getattr(built, name), getattr(by_hand, name))
    assert float(built.running_mean.abs().max()) > 0.01
    assert float(built.running_var.min()) > 0
    assert torch.equal(by_hand.mask, torch.ones(4))


def test_what_memory_held_before_counts_for_nothing(monkeypatch):
    made = construct(nn.LayerNorm, [4], {}, 7, vary=True)

    def leftover(size, **options):
        return torch.from_numpy(numpy.ones(size, dtype=numpy.float32))

    monkeypatch.setattr(torch, "empty", leftover)
    again = construct(nn.LayerNorm, [(4,)], {}, 7, vary=True)
    assert torch.equal(made.weight, again.weight)


def test_what_is_part_of_a_parameter_stays_as_it_is_filled():
    made = construct(nn.Embedding, [4, 3], {"padding_idx": 0}, 7, vary=True)
    assert torch.equal(made.weight.detach()[0], torch.zeros(3))


def test_without_variation_defaults_stay():
    assert torch.equal(construct(Builtin, [], {}, 7, vary=False).norm.weight, torch.ones(4))


def test_nothing_stays_patched():
    before = (torch.ones, nn.init.ones_, nn.Parameter.__new__)
    with varied_constants(1):
        pass
    assert (torch.ones, nn.init.ones_, nn.Parameter.__new__) == before
    assert "fill_" not in vars(torch.Tensor)
    assert torch.equal(nn.Parameter(torch.ones(3)).data, torch.ones(3))


def test_a_state_loads_by_position_where_names_differ():
    left, right = construct(Builtin, [], {}, 1, vary=True), construct(ByHand, [], {}, 2, vary=False)
    names = ["gamma", "beta", "linear.weight", "linear.bias"]
    assert list(right.state_dict()) == names
    state = dict(
        zip("abcd", (torch.full_like(value, 3.0) for value in right.state_dict().values()), strict=True)
    )
    load_state(right, state)
    assert float(right.gamma.detach().sum()) == 12.0
    assert left is not right


class Packed(nn.Module):
    """The linear's weight and bias in one parameter, as its hook packs them."""

    def __init__(self):
        super().__init__()
        self.both = nn.Parameter(torch.randn(4, 5))
        self.norm = nn.LayerNorm(4)
        self._register_load_state_dict_pre_hook(self._pack)

    def _pack(self, state, prefix, *rest):
        if "linear.weight" in state:
            state["both"] = torch.cat([state.pop("linear.weight"), state.pop("linear.bias")[:, None]], 1)


def test_a_state_loads_through_what_the_models_own_hooks_make_of_it():
    state = construct(Builtin, [], {}, 1, vary=True).state_dict()
    packed = construct(Packed, [], {}, 2, vary=False)
    load_state(packed, state)
    assert torch.equal(packed.both[:, 4], state["linear.bias"])
    assert torch.equal(packed.norm.weight, state["norm.weight"])


def test_a_state_loads_beside_buffers_of_the_models_own():
    class Tabled(Builtin):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(3.0))

    state = construct(Builtin, [], {}, 1, vary=True).state_dict()
    tabled = construct(Tabled, [], {}, 2, vary=False)
    load_state(tabled, state)
    assert torch.equal(tabled.linear.weight, state["linear.weight"])
    assert torch.equal(tabled.table, torch.arange(3.0))


class NormByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(4))
        self.beta = nn.Parameter(torch.zeros(4))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("variance", torch.ones(4))
        self.conv = nn.Conv1d(3, 4, 1)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 1)
        self.norm = nn.BatchNorm1d(4)


def test_a_state_loads_by_name_and_else_in_order_of_equal_shapes():
    state = construct(Normed, [], {}, 1, vary=True).state_dict()
    by_hand = construct(NormByHand, [], {}, 2, vary=False)
    load_state(by_hand, state)
    own = by_hand.state_dict()
    assert torch.equal(own["conv.bias"], state["conv.bias"])
    others = ("norm.weight", "norm.bias", "norm.running_mean", "norm.running_var")
    for name, other in zip(("gamma", "beta", "mean", "variance"), others, strict=True):
        assert torch.equal(own[name], state[other])


def test_a_state_whose_parameters_have_no_place_says_what_to_do():
    state = construct(Builtin, [], {}, 1, vary=True).state_dict()
    with pytest.raises(ValueError, match="draw them as it does, or take its state in a load_state_dict hook"):
        load_state(nn.Linear(3, 3), state)


def test_variation_leaves_device_contexts_alone():
    code = (
        "import torch\n"
        "from torch import nn\n"
        "from kernelwright.evaluator.ipc.model_init import varied_constants\n"
        "with varied_constants(3), torch.device('meta'):\n"
        "    inside = nn.BatchNorm2d(4)\n"
        "with torch.device('meta'):\n"
        "    after = nn.BatchNorm2d(4)\n"
        "print(inside.running_mean.device, after.running_mean.device)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["meta", "meta"]


def test_variation_does_not_depend_on_the_device_that_tensors_are_made_on():
    plain = construct(Builtin, [], {}, 3, vary=True)
    try:
        torch.set_default_device("meta")
        with varied_constants(3):
            weight = nn.Parameter(torch.ones(4, device="cpu"))
    finally:
        torch.set_default_device(None)
    assert torch.equal(weight.data, plain.norm.weight.data)


def test_every_generator_that_is_drawn_from_unnamed_draws_again_what_it_drew():
    class Drawing(nn.Module):
        def __init__(self):
            super().__init__()
            self.drawn = (float(torch.rand(())), random.random(), numpy.random.rand())

    one, again, other = (construct(Drawing, [], {}, seed, vary=False).drawn for seed in (2**40, 2**40, 5))
    assert one == again
    assert all(a != b for a, b in zip(one, other, strict=True))


def test_tensors_that_lie_nowhere_are_filled_as_ever():
    def doubled():
        return torch.vmap(lambda row: torch.empty_like(row).fill_(2.0) * row)(torch.ones(3, 4))

    assert torch.equal(construct(doubled, [], {}, 7, vary=True), torch.full((3, 4), 2.0))
