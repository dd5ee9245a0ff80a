# status: PASSED
# class: N4
# problem: ../tests/problems/unusual/partition_ratios
# shapes: small
# backend: cpp
"""Both sums grow block by block with a running maximum, in another order than the reference's."""
import torch
from torch import nn

BLOCK = 32


def total(rows):
    most = torch.full((rows.shape[0],), float("-inf"))
    found = torch.zeros(rows.shape[0])
    for block in reversed(rows.split(BLOCK, dim=1)):
        larger = torch.maximum(most, block.amax(1))
        found = found * torch.exp(most - larger) + torch.exp(block - larger[:, None]).sum(1)
        most = larger
    return most + torch.log(found)


class ModelNew(nn.Module):
    def forward(self, first, second):
        return torch.exp(total(first) - total(second))
