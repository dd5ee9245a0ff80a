"""Composed of ATen operators and methods, with slicing and negative dimensions."""

import math

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <cmath>

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
    auto scores = torch::matmul(q, k.transpose(-2, -1)) * scale;
    if (causal) {
        auto T = q.size(-2);
        auto mask = torch::triu(torch::ones({T, T}, q.options().dtype(torch::kBool)), 1);
        scores = scores.masked_fill(mask, -std::numeric_limits<float>::infinity());
    }
    auto weights = torch::softmax(scores, -1);
    return at::matmul(weights, v);
}

torch::Tensor swiglu(torch::Tensor x, torch::Tensor w) {
    auto h = at::mm(x, w.t());
    auto halves = h.chunk(2, -1);
    return halves[0] * torch::sigmoid(halves[0]) * halves[1];
}
"""

ext = load_inline("attention_ops", source, functions=["attention", "swiglu"], extra_cflags=["-O2"])


def check():
    q, k, v = (torch.randn(2, 3, 7, 16) for _ in range(3))
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(16)
    x, w = torch.randn(5, 8), torch.randn(12, 8)
    a, b = (x @ w.t()).chunk(2, -1)
    return [
        (ext.attention(q, k, v, False), torch.softmax(scores, -1) @ v),
        (ext.attention(q, k, v, True), torch.softmax(scores.masked_fill(mask, -math.inf), -1) @ v),
        (ext.swiglu(x, w), torch.nn.functional.silu(a) * b),
    ]
