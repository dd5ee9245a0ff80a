"""Smaller versions of a problem: where they come from, and which still are the problem."""

from __future__ import annotations

import socket
import textwrap
from collections.abc import Callable, Iterator

import pytest

from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.referee.correctness.shape_variants import (
    ShapeVariant,
    evaluated,
    scaled,
    smaller,
    versions,
)
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from tests.evaluator.referee.references import pool_of

Make = Callable[..., ShapeVariant]


@pytest.fixture
def scene() -> Iterator[Make]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        driver = DriverLink(Channel(ours))
        yield lambda source, overrides=None: _scene(driver, source, overrides or {})


def _scene(driver: DriverLink, source: str, overrides: dict[str, object]) -> ShapeVariant:
    device = open_device("cpu")
    reference = Reference(
        "test", textwrap.dedent(source), overrides, device=device.torch_device, dtype="as_is"
    )
    ground = ProblemContext(
        driver=driver,
        device=device,
        reference=reference,
        overrides=overrides,
        device_name="cpu",
        threads=1,
        math="fp32",
        dtype="as_is",
        load_s=10.0,
    )
    return evaluated(ground, pool_of(reference, 0), "full size")


MATMUL = """
    import torch
    from torch import nn
    M, K, N = 512, 513, 300
    class Model(nn.Module):
        def forward(self, a, b):
            return a @ b
    def get_inputs():
        return [torch.randn(M, K), torch.randn(K, N)]
"""


def test_constants_shrink_by_a_power_of_two_and_odd_ones_stay_odd() -> None:
    constants = {
        "N": 4096,
        "K": 8191,
        "HEADS": 8,
        "FLAG": True,
        "WIDTHS": [64, 4096],
        "_N": 4096,
        "S": "4096",
    }
    assert scaled(constants, 128) == {"N": 128, "K": 255, "WIDTHS": [64, 128]}
    assert scaled({"N": 100, "K": 8192}, 128) == {"K": 256}
    assert scaled({"N": 8192}, 32) == {"N": 256}


def test_shapes_of_the_problem_come_first(scene: Make) -> None:
    whole = scene(
        MATMUL + '    SHAPES = {"odd": {"M": 33}, "small": {"M": 32, "N": 32}, "large": {"M": 600}}\n'
    )
    assert whole.name == "full size"
    names = [each.name for each in smaller(whole)]
    assert names[:2] == ["small", "odd"]
    assert "large" not in names


def test_without_shapes_the_constants_are_scaled(scene: Make) -> None:
    made = next(iter(smaller(scene(MATMUL))))
    assert made.name == "scaled down to 128"
    assert [tuple(leaf.shape) for leaf in made.arguments.leaves] == [(128, 129), (129, 128)]
    assert made.elements < scene(MATMUL).elements
    assert made.context.overrides == {"M": 128, "K": 129, "N": 128}


def test_sizes_already_judged_on_are_not_tried_again(scene: Make) -> None:
    source = MATMUL + '    SHAPES = {"small": {"M": 32}}\n'
    assert "small" not in [each.name for each in smaller(scene(source, {"M": 32}))]


@pytest.mark.parametrize(
    "line",
    [
        "return [torch.randn(M), torch.randn(2)] if M > 200 else [torch.randn(M)]",
        "return [torch.randn(M)] if M > 200 else [torch.randn(M, 1)]",
        "return [torch.randn(M)] if M > 200 else [torch.randn(M).double()]",
        "return [torch.randn(M)] if M > 200 else 1 / 0",
    ],
)
def test_another_problem_is_refused(scene: Make, line: str) -> None:
    source = f"""
    import torch
    from torch import nn
    M = 4096
    class Model(nn.Module):
        def forward(self, *inputs):
            return inputs[0] + 1
    def get_inputs():
        {line}
    """
    assert list(smaller(scene(source))) == []


def test_other_sizes_keep_what_the_judged_ones_made_small(scene: Make) -> None:
    source = """
        import torch
        from torch import nn
        ROWS, WIDTH = 4096, 8192
        SHAPES = {"small": {"ROWS": 48, "WIDTH": 300}, "odd": {"ROWS": 33, "WIDTH": 301}}
        SHAPES["huge"] = {"ROWS": 10**9}
        class Model(nn.Module):
            def forward(self, x):
                return x.relu()
        def get_inputs():
            return [torch.randn(ROWS, WIDTH)]
    """
    found = {
        made.name: tuple(made.output.leaves[0].shape)
        for made in versions(scene(source, {"ROWS": 48, "WIDTH": 300}))
    }
    assert found == {"odd": (33, 301), "scaled down to 128": (48, 128), "scaled down to 64": (48, 64)} | {
        "scaled down to 32": (48, 32)
    }
