"""Integer tensors, full with -infinity, 4-D accessors."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <limits>
#include <vector>

std::vector<torch::Tensor> max_pool2d(torch::Tensor x, std::vector<int64_t> kernel, std::vector<int64_t> stride) {
    const int64_t N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const int64_t OH = (H - kernel[0]) / stride[0] + 1, OW = (W - kernel[1]) / stride[1] + 1;
    auto out = torch::full({N, C, OH, OW}, -std::numeric_limits<float>::infinity(), x.options());
    auto idx = torch::zeros({N, C, OH, OW}, torch::TensorOptions().dtype(torch::kInt64).device(x.device()));
    auto in = x.accessor<float, 4>();
    auto o = out.accessor<float, 4>();
    auto k = idx.accessor<int64_t, 4>();
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            for (int64_t y = 0; y < OH; y++)
                for (int64_t z = 0; z < OW; z++)
                    for (int64_t i = 0; i < kernel[0]; i++)
                        for (int64_t j = 0; j < kernel[1]; j++) {
                            const auto yy = y * stride[0] + i, zz = z * stride[1] + j;
                            if (in[n][c][yy][zz] > o[n][c][y][z]) {
                                o[n][c][y][z] = in[n][c][yy][zz];
                                k[n][c][y][z] = yy * W + zz;
                            }
                        }
    return {out, idx};
}
"""

ext = load_inline("max_pool_ext", source, functions=["max_pool2d"], extra_cflags=["-O3"])


def check():
    x = torch.randn(2, 3, 9, 8)
    out, idx = ext.max_pool2d(x, [3, 2], [2, 2])
    expected = F.max_pool2d(x, (3, 2), 2, return_indices=True)
    return [(out, expected[0]), (idx, expected[1])]
