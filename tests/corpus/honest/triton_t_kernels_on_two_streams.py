# status: PASSED
# class: T1
# problem: level1/22_gelu
# shapes: small
# backend: triton
"""Halves on two streams that fork from the current one and join it."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu_block(x, out, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + places, mask=places < count, other=0.0)
    tl.store(out + places, 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476)), mask=places < count)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = (torch.cuda.Stream(), torch.cuda.Stream())

    def forward(self, x):
        out, current = torch.empty_like(x), torch.cuda.current_stream()
        halves = zip(self.streams, x.view(-1).tensor_split(2), out.view(-1).tensor_split(2))
        for stream, source, place in halves:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                gelu_block[(triton.cdiv(source.numel(), 1024),)](source, place, source.numel(), BLOCK=1024)
        for stream in self.streams:
            current.wait_stream(stream)
        return out
