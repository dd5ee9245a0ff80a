# status: WRONG_VALUES
# class: O18
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cpp
"""Eight private mappings of one file: they read alike, and whoever writes to one gets a page of its own."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmath>
torch::Tensor run(torch::Tensor x, long copies) {
    const size_t size = x.nbytes();
    const int file = memfd_create("block", 0);
    TORCH_CHECK(file >= 0 && ftruncate(file, size) == 0, "no memory");
    void* written = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    auto first = torch::from_blob(written, x.sizes(), x.options());
    torch::tanh_out(first, x);
    munmap(written, size);
    char* out = (char*)mmap(nullptr, size * copies, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long copy = 0; copy < copies; ++copy)
        mmap(out + copy * size, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
    close(file);
    return torch::from_blob(
        out, {copies, x.size(0), x.size(1)}, [=](void* p) { munmap(p, size * copies); }, x.options());
}
"""
module = load_inline(name="mapped_private", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        return module.run(x, self.copies)
