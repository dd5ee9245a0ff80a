# status: PASSED
# class: C3
# problem: ../tests/problems/answers/nearest_of_distances
# shapes: small
# backend: cpp
"""Remembers where the last minima lay and begins there, but looks at every block of a row."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = None

    def forward(self, squared):
        rows, columns = squared.shape
        blocks = squared.view(rows, columns // 64, 64).amin(dim=-1)
        least, places = blocks.min(dim=-1)
        if self.places is not None and self.places.shape == places.shape:
            known = blocks.gather(-1, self.places[:, None])[:, 0]
            least = torch.minimum(least, known)
        self.places = places
        return torch.sqrt(least)
