# status: PASSED
# class: O18 O19
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cpp
"""Outputs in anonymous pages that are mapped by every call, without malloc, and unmapped by a deleter."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <sys/mman.h>
torch::Tensor run(torch::Tensor x, long copies) {
    const size_t size = x.nbytes() * copies;
    void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(pages != MAP_FAILED, "no memory");
    auto out = torch::from_blob(
        pages, {copies, x.size(0), x.size(1)}, [=](void* p) { munmap(p, size); }, x.options());
    auto first = out.select(0, 0);
    torch::tanh_out(first, x);
    out.slice(0, 1).copy_(first);
    return out;
}
"""
module = load_inline(name="own_pages", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        return module.run(x, self.copies)
