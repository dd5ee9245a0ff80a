# status: PASSED
# class: C6 T7
# problem: ../tests/problems/answers/sum_and_difference
# shapes: small
# backend: cuda
"""A graph, captured once for each address of inputs, with a branch for each output of its one call."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph, self.static, self.results = None, None, None

    def capture(self, x, y):
        self.static = (x.clone(), y.clone())
        self.results = (torch.empty_like(x), torch.empty_like(x))
        graph, main, side = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.Stream()
        left, right = self.static
        torch.cuda.synchronize()
        with torch.cuda.stream(main):
            graph.capture_begin(capture_error_mode="relaxed")
            fork, join = torch.cuda.Event(), torch.cuda.Event()
            fork.record(main)
            side.wait_event(fork)
            torch.tanh(left + right, out=self.results[0])
            with torch.cuda.stream(side):
                torch.tanh(left - right, out=self.results[1])
                join.record(side)
            main.wait_event(join)
            graph.capture_end()
        return graph

    def forward(self, x, y):
        if self.graph is None or self.static[0].shape != x.shape:
            self.graph = self.capture(x, y)
        for place, value in zip(self.static, (x, y)):
            place.copy_(value)
        self.graph.replay()
        return tuple(result.clone() for result in self.results)
