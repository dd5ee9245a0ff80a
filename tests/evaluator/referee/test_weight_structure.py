"""Weights that a constructor left with a structure are told from random ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernelwright.evaluator.referee.reference.weight_structure import has_structure, structured


def _seeded(make):
    torch.manual_seed(5)
    return make()


RANDOM = {
    "linear": lambda: nn.Linear(300, 200).weight,
    "its bias": lambda: nn.Linear(300, 200).bias,
    "a large uniform": lambda: torch.rand(1024, 1024),
    "convolution": lambda: nn.Conv2d(3, 8, 3).weight,
    "depthwise": lambda: nn.Conv1d(16, 16, 3, groups=16).weight,
    "embedding": lambda: nn.Embedding(5000, 32).weight,
    "half": lambda: torch.randn(256, 256).half(),
    "bfloat16": lambda: torch.randn(512, 64).bfloat16(),
    "double": lambda: torch.randn(64, 64, dtype=torch.float64),
    "complex": lambda: torch.randn(32, 32, dtype=torch.complex64),
    "positive": lambda: torch.rand(4096) + 0.5,
    "few": lambda: torch.randn(3),
    "one": lambda: torch.randn(1),
    "long rows": lambda: torch.randn(4, 1 << 18),
    "one row": lambda: torch.randn(1, 64),
    "triangular solve's own": lambda: torch.rand(8, 8) + 8 * torch.rand(8, 8),
}

STRUCTURED = {
    "copies in one": lambda: torch.randn(1, 16, 16).repeat(4, 1, 1),
    "copied columns": lambda: torch.randn(64, 1).repeat(1, 8).contiguous() * torch.ones(64, 8),
    "negative copies": lambda: torch.cat([(one := torch.randn(8, 8)), -one]),
    "rows of zeros": lambda: torch.cat([torch.randn(63, 16), torch.zeros(1, 16)]),
    "padded": lambda: nn.functional.pad(torch.randn(8, 8, 3, 3), (1, 1, 1, 1)),
    "one hot": lambda: nn.functional.one_hot(torch.tensor(3), 16).float(),
    "identity and noise below": lambda: torch.eye(16) + torch.tril(torch.randn(16, 16), -1),
    "real": lambda: torch.complex(torch.randn(64), torch.zeros(64)),
    "symmetric": lambda: (one := torch.randn(32, 32)) + one.T,
    "of low rank": lambda: torch.randn(64, 2) @ torch.randn(2, 64),
    "orthogonal": lambda: nn.init.orthogonal_(torch.empty(32, 64)),
    "few values": lambda: torch.randint(0, 5, (64, 64)) + 0.5,
    "copies in half": lambda: torch.randn(1, 16, 16).half().repeat(4, 1, 1),
    "a band": lambda: torch.triu(torch.tril(torch.randn(64, 64), 2), -2),
    "circulant": lambda: torch.stack([torch.arange(32.0).sin().roll(i) for i in range(32)]),
    "an infinite one": lambda: torch.tensor([1.0, float("-inf"), 0.5]),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_weights_have_none(name: str) -> None:
    assert not has_structure(_seeded(RANDOM[name]))


@pytest.mark.parametrize("seed", range(20))
def test_random_weights_of_any_seed_have_none(seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.TransformerEncoderLayer(64, 4, 128)
    weights = {name: one for name, one in model.named_parameters() if one.dim() > 1}
    assert structured(weights) == set()


def test_rows_of_nearly_equal_sums_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.evaluator.referee.reference.policy.EQUAL_SUMS", 1.0)
    assert not has_structure(_seeded(RANDOM["linear"]))
    assert has_structure(_seeded(STRUCTURED["copies in one"]))


@pytest.mark.parametrize("name", STRUCTURED)
def test_structure_is_found(name: str) -> None:
    assert has_structure(_seeded(STRUCTURED[name]))


def test_copies_among_several_are_found() -> None:
    one = torch.randn(8, 8)
    weights = {"a": one, "b": torch.randn(8, 8), "c": one.clone(), "d": torch.randn(4)}
    assert structured(weights) == {"a", "c"}
