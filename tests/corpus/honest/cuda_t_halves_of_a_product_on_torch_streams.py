# status: PASSED
# class: T1
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cuda
"""Two halves of a product on two of torch's streams, joined before they are put together."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.streams = (torch.cuda.Stream(), torch.cuda.Stream())

    def forward(self, x):
        current, parts = torch.cuda.current_stream(), []
        for stream, weight, bias in zip(self.streams, self.weight.chunk(2), self.bias.chunk(2)):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                parts.append(torch.relu(nn.functional.linear(x, weight, bias)))
        for stream, part in zip(self.streams, parts):
            current.wait_stream(stream)
            part.record_stream(current)
        return torch.cat(parts, dim=1)
