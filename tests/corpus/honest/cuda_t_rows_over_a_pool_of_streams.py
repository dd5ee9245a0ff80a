# status: PASSED
# class: T1
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""Pieces of the rows go around four of torch's streams, written into one output, each with an event."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = [torch.cuda.Stream() for _ in range(4)]

    def forward(self, x):
        out = torch.empty_like(x)
        start, current = torch.cuda.Event(), torch.cuda.current_stream()
        start.record(current)
        for number, (rows, place) in enumerate(zip(x.chunk(8), out.chunk(8))):
            stream = self.streams[number % 4]
            stream.wait_event(start)
            with torch.cuda.stream(stream):
                torch.softmax(rows, dim=-1, out=place)
        for stream in self.streams:
            done = torch.cuda.Event()
            done.record(stream)
            current.wait_event(done)
        return out
