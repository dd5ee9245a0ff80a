# status: PASSED
# class: C6
# problem: level1/22_gelu
# shapes: small
# backend: triton
"""A captured graph per shape; inputs are copied in before each replay, outputs out after it."""
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
        self.graphs = {}

    def compute(self, x):
        out = torch.empty_like(x)
        gelu_block[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out

    def capture(self, x):
        place = x.clone()
        self.compute(place)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.compute(place)
        return graph, place, out

    def forward(self, x):
        if x.shape not in self.graphs:
            self.graphs[x.shape] = self.capture(x)
        graph, place, out = self.graphs[x.shape]
        place.copy_(x)
        graph.replay()
        return out.clone()
