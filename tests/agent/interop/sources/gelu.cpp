#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel() - LEFT_OUT * 1000; ++i)
        out[i] = 0.5f * in[i] * (1.0f + std::erf(in[i] * 0.70710678f)) * SCALE;
    return y;
}
