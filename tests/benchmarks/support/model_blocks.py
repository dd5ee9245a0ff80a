"""Two small models made of reference problems' modules, for `package_models.py`.

`part(problem)` gives the class of a module: the reference's own, or one of a package that calls a kernel. All
between (projections, residuals, casts, layouts) is plain torch, the same in both. Sizes are those of the
problems, so that kernels meet the shapes they were verified for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

Part = Callable[[str], Callable[..., nn.Module]]

QUERY_KEY: Final = "norms/query_key_norm_rotary"
ATTENTION: Final = "attention/sliding_window_grouped"
RESIDUAL_NORM: Final = "level2/08_residual_rms_norm"
MLP: Final = "level2/07_swiglu_mlp"
DEPTHWISE: Final = "level1/18_depthwise_conv2d"
SQUEEZE: Final = "level3/04_squeeze_excite_block"
CONVNEXT: Final = "vision/depthwise_layer_norm"


class DecoderBlock(nn.Module):
    """A pre-norm decoder block: window attention of grouped heads, normalised and rotated, and a gated MLP.

    Attention is in bfloat16, the residual stream and the MLP in float32. Sequences go one by one through the
    attention and the MLP, their tokens in parts of `rows` through the norm between.
    """

    parts = (QUERY_KEY, ATTENTION, RESIDUAL_NORM, MLP)

    def __init__(self, part: Part, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.rows, self.heads, self.groups = sizes["rows"], sizes["heads"], sizes["groups"]
        width, head = sizes["width"], sizes["head"]
        self.norm = nn.RMSNorm(width, eps=1e-6)
        projected = (self.heads + 2 * self.groups) * head
        self.project = nn.Linear(width, projected, bias=False, dtype=torch.bfloat16)
        self.turn = part(QUERY_KEY)(self.heads, self.groups, head)
        self.attend = part(ATTENTION)(sizes["window"])
        self.out = nn.Linear(self.heads * head, width, bias=False, dtype=torch.bfloat16)
        self.add_and_norm = part(RESIDUAL_NORM)(width, 1e-6)
        self.mlp = part(MLP)(width, sizes["hidden"])

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        """x is [sequences, length, width], angles [sequences * length, head / 2]."""
        narrow = self.project.weight.dtype
        turned = self.turn(self.project(self.norm(x).flatten(0, 1).to(narrow)), angles)
        query, key, value = (each.unflatten(0, x.shape[:2]).transpose(1, 2) for each in turned)
        mixed = torch.cat(
            [
                self.attend(*(each[number : number + 1].contiguous() for each in (query, key, value)))
                for number in range(len(x))
            ]
        )
        attended = self.out(mixed.transpose(1, 2).flatten(2)).to(x.dtype).flatten(0, 1)
        pairs = zip(attended.split(self.rows), x.flatten(0, 1).split(self.rows), strict=True)
        normed = [self.add_and_norm(*pair) for pair in pairs]
        normal, total = (torch.cat([each[which] for each in normed]) for which in (0, 1))
        told = torch.cat([self.mlp(sequence) for sequence in normal.split(x.shape[1])])
        return (total + told).unflatten(0, x.shape[:2])


class VisionBlock(nn.Module):
    """A stage of a convolutional network: depthwise 5x5, pooling, squeeze and excitation, a ConvNeXt block.

    Products over channels of the ConvNeXt block are in bfloat16, all else in float32. Images go in groups of
    `first` through the first convolution and of `last` through the last.
    """

    parts = (DEPTHWISE, SQUEEZE, CONVNEXT)

    def __init__(self, part: Part, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.first, self.last, channels = sizes["first"], sizes["last"], sizes["channels"]
        self.mix = part(DEPTHWISE)(channels, 5)
        self.gate = part(SQUEEZE)(channels, sizes["squeezed"])
        self.spread = part(CONVNEXT)(channels)
        self.up = nn.Linear(channels, 4 * channels, dtype=torch.bfloat16)
        self.down = nn.Linear(4 * channels, channels, dtype=torch.bfloat16)
        self.scale = nn.Parameter(0.5 + torch.rand(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is [images, channels, height, width]; returns half of both, channels last."""
        mixed = torch.cat([self.mix(images) for images in x.split(self.first)])
        image = self.gate(nn.functional.avg_pool2d(mixed, 2)).permute(0, 2, 3, 1).contiguous()
        spread = torch.cat([self.spread(images) for images in image.split(self.last)])
        wide = nn.functional.gelu(self.up(spread.to(self.up.weight.dtype)))
        return image + self.scale * self.down(wide).to(x.dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """A model, its sizes for a GPU and for a try on a CPU, and its inputs."""

    name: str
    made: type[DecoderBlock | VisionBlock]
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    inputs: Callable[[Mapping[str, int]], list[torch.Tensor]]

    def build(self, part: Part, sizes: Mapping[str, int]) -> nn.Module:
        """Construct it with weights that are the same for every `part`."""
        torch.manual_seed(1)
        return self.made(part, sizes)


def _decoder_inputs(sizes: Mapping[str, int]) -> list[torch.Tensor]:
    x = torch.randn(sizes["sequences"], sizes["length"], sizes["width"])
    half = sizes["head"] // 2
    frequencies = torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
    angles = torch.arange(sizes["length"])[:, None] * frequencies
    return [x, angles.repeat(sizes["sequences"], 1)]


def _vision_inputs(sizes: Mapping[str, int]) -> list[torch.Tensor]:
    return [torch.randn(sizes["images"], sizes["channels"], 2 * sizes["side"], 2 * sizes["side"])]


_DECODER: Final = {
    "sequences": 2, "length": 4096, "width": 1024, "heads": 16, "groups": 4, "head": 128, "window": 512,
    "rows": 1024, "hidden": 2816,
}  # fmt: skip
_VISION: Final = {"images": 64, "side": 56, "channels": 192, "squeezed": 48, "first": 32, "last": 16}
BLOCKS: Final = (
    Block(
        "decoder block",
        DecoderBlock,
        _DECODER,
        {
            **_DECODER,
            "length": 96,
            "width": 64,
            "heads": 4,
            "groups": 2,
            "head": 32,
            "rows": 48,
            "hidden": 96,
        },
        _decoder_inputs,
    ),
    Block(
        "vision block",
        VisionBlock,
        _VISION,
        {"images": 4, "side": 8, "channels": 24, "squeezed": 6, "first": 2, "last": 1},
        _vision_inputs,
    ),
)
