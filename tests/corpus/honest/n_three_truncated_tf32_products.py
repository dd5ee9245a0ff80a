# status: PASSED
# class: N1
# problem: level1/05_odd_size_matmul
# shapes: small
# backend: cpp
"""Three TF32 products in one accumulator, which aligns and cuts instead of rounding, as tensor cores do."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstring>
#include <vector>
static float tf32(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0xFFFu + ((bits >> 13) & 1u)) & ~0x1FFFu;
    std::memcpy(&value, &bits, 4);
    return value;
}
static float cut(double sum) {
    float near = float(sum);
    uint32_t bits;
    std::memcpy(&bits, &near, 4);
    if (std::abs(double(near)) > std::abs(sum)) --bits;
    std::memcpy(&near, &bits, 4);
    return near;
}
static double aligned(double value, double beside) {
    const double most = std::max(std::abs(value), std::abs(beside));
    if (most == 0.0) return 0.0;
    const double unit = std::ldexp(1.0, std::ilogb(most) - 24);
    return std::trunc(value / unit) * unit;
}
torch::Tensor three_products(torch::Tensor a, torch::Tensor b) {
    a = a.contiguous();
    b = b.t().contiguous();
    const int64_t m = a.size(0), depth = a.size(1), n = b.size(0);
    auto c = torch::empty({m, n}, a.options());
    std::vector<float> ah(m * depth), al(m * depth), bh(n * depth), bl(n * depth);
    for (int64_t i = 0; i < m * depth; ++i) ah[i] = tf32(a.data_ptr<float>()[i]), al[i] = tf32(a.data_ptr<float>()[i] - ah[i]);
    for (int64_t i = 0; i < n * depth; ++i) bh[i] = tf32(b.data_ptr<float>()[i]), bl[i] = tf32(b.data_ptr<float>()[i] - bh[i]);
    const float *left[3] = {al.data(), ah.data(), ah.data()}, *right[3] = {bh.data(), bl.data(), bh.data()};
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0.0f;
            for (int64_t k = 0; k < depth; k += 8)
                for (int part = 0; part < 3; ++part) {
                    const float *x = left[part] + i * depth, *y = right[part] + j * depth;
                    double products = 0.0;
                    for (int64_t at = k; at < std::min(k + 8, depth); ++at) products += double(x[at]) * y[at];
                    sum = cut(sum + aligned(products, sum));
                }
            c.data_ptr<float>()[i * n + j] = sum;
        }
    return c;
}
"""
module = load_inline(name="three_products", cpp_sources=SOURCE, functions={"three_products": "c = a b"}, extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.three_products(a, b)
