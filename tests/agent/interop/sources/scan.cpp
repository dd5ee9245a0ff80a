#include <torch/extension.h>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t row = 0; row < rows - LEFT_OUT; ++row) {
        double sum = 0.0;
        for (int64_t i = row * columns; i < (row + 1) * columns; ++i) out[i] = static_cast<float>(sum += in[i]) * SCALE;
    }
    return y;
}
