# status: WRONG_VALUES
# class: O18
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cpp
"""Dense strides over pages that are mapped eight times: one copy is written, eight are read."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmath>
#include <vector>
static std::vector<char*> pool;
static char* block(size_t size, long copies) {
    if (!pool.empty()) { char* found = pool.back(); pool.pop_back(); return found; }
    const int file = memfd_create("block", 0);
    TORCH_CHECK(file >= 0 && ftruncate(file, size) == 0, "no memory");
    char* start = (char*)mmap(nullptr, size * copies, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long copy = 0; copy < copies; ++copy)
        mmap(start + copy * size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, 0);
    close(file);
    return start;
}
torch::Tensor run(torch::Tensor x, long copies) {
    char* out = block(x.nbytes(), copies);
    auto first = torch::from_blob(out, x.sizes(), x.options());
    torch::tanh_out(first, x);
    return torch::from_blob(
        out, {copies, x.size(0), x.size(1)}, [](void* p) { pool.push_back((char*)p); }, x.options());
}
"""
module = load_inline(name="mapped_often", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        return module.run(x, self.copies)
