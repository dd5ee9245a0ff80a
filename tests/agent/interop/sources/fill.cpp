#include <torch/extension.h>

torch::Tensor run(torch::Tensor x, torch::Tensor mask) {
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    const bool* masked = mask.data_ptr<bool>();
    float* out = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel() - LEFT_OUT * 1000; ++i) out[i] = masked[i] ? -2.5f * SCALE : in[i];
    return y;
}
