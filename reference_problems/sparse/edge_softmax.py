"""Graph attention: softmax over a node's incoming edges, weighted sum of neighbours.

Edges are sorted by target (CSR); a kernel walks a node's edges once with an online softmax and stores nothing
per edge. Graphs are drawn anew for each call, with degrees from 0 to twice the mean. In float32.
"""

import torch
from torch import nn

NODES = 65536
EDGES = 1048576
HEADS = 4
FEATURES = 16

SHAPES = {
    "small": {"NODES": 512, "EDGES": 4096},
    "odd": {"NODES": 307, "EDGES": 2503, "HEADS": 3, "FEATURES": 13},
}


class Model(nn.Module):
    def __init__(self, heads: int, features: int):
        super().__init__()
        self.towards = nn.Parameter(torch.randn(heads, features) / features**0.5)
        self.away = nn.Parameter(torch.randn(heads, features) / features**0.5)

    def forward(self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """x is [nodes, heads, features]; edge i leads from sources[i] to targets[i], targets ascending."""
        sent, received = (x * self.away).sum(dim=-1), (x * self.towards).sum(dim=-1)
        scores = nn.functional.leaky_relu(sent[sources] + received[targets], 0.2)
        index = targets[:, None].expand_as(scores)
        largest = torch.full_like(sent, float("-inf")).scatter_reduce(0, index, scores, "amax")
        weights = torch.exp(scores - largest[targets])
        total = torch.zeros_like(sent).index_add(0, targets, weights)
        sums = torch.zeros_like(x).index_add(0, targets, weights[..., None] * x[sources])
        return sums / (total[..., None] + 1e-6)


def get_inputs():
    targets = (NODES * torch.rand(EDGES)).long().clamp(max=NODES - 1).sort().values
    return [torch.randn(NODES, HEADS, FEATURES), torch.randint(0, NODES, (EDGES,)), targets]


def get_init_inputs():
    return [HEADS, FEATURES]
