// The part of torch::nn::functional that kernels call: thin names over operators, with option builders.
#ifndef KW_FUNCTIONAL_H
#define KW_FUNCTIONAL_H

#include "tensor.h"

namespace kernelwright {

// One number for every dimension, or one each.
template <size_t D>
class ExpandingArray {
 public:
  ExpandingArray(int64_t one) { values_.fill(one); }
  ExpandingArray(int one) : ExpandingArray(static_cast<int64_t>(one)) {}
  ExpandingArray(std::initializer_list<int64_t> list) : ExpandingArray(IntArrayRef(list)) {}
  ExpandingArray(const std::vector<int64_t>& list) : ExpandingArray(IntArrayRef(list)) {}
  ExpandingArray(IntArrayRef list) {
    TORCH_CHECK(list.size() == D, "Expected ", D, " values, but instead got ", list.size());
    std::copy(list.begin(), list.end(), values_.begin());
  }
  operator IntArrayRef() const { return values_; }

 private:
  std::array<int64_t, D> values_;
};

namespace nn::functional {

// An option that is set by calling its name, as torch's builders do.
#define KW_OPTION(T, name, initial)                                    \
  auto name(T value) -> decltype(*this) { name##_ = std::move(value); return *this; } \
  const T& name() const { return name##_; }                            \
  T name##_ = initial;

struct ReLUFuncOptions {
  ReLUFuncOptions(bool inplace = false) : inplace_(inplace) {}
  KW_OPTION(bool, inplace, false)
};
struct GELUFuncOptions {
  KW_OPTION(std::string, approximate, "none")
};
struct LeakyReLUFuncOptions {
  KW_OPTION(double, negative_slope, 1e-2)
  KW_OPTION(bool, inplace, false)
};
struct ELUFuncOptions {
  KW_OPTION(double, alpha, 1.0)
  KW_OPTION(bool, inplace, false)
};
struct SoftplusFuncOptions {
  KW_OPTION(double, beta, 1.0)
  KW_OPTION(double, threshold, 20.0)
};
struct SoftmaxFuncOptions {
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}
  KW_OPTION(int64_t, dim, 0)
  KW_OPTION(std::optional<ScalarType>, dtype, std::nullopt)
};
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
template <size_t D>
struct ConvFuncOptions {
  KW_OPTION(Tensor, bias, Tensor())
  KW_OPTION(ExpandingArray<D>, stride, 1)
  KW_OPTION(ExpandingArray<D>, padding, 0)
  KW_OPTION(ExpandingArray<D>, dilation, 1)
  KW_OPTION(int64_t, groups, 1)
};
using Conv1dFuncOptions = ConvFuncOptions<1>;
using Conv2dFuncOptions = ConvFuncOptions<2>;
using Conv3dFuncOptions = ConvFuncOptions<3>;
struct MaxPool2dFuncOptions {
  MaxPool2dFuncOptions(ExpandingArray<2> kernel) : kernel_size_(kernel), stride_(kernel) {}
  KW_OPTION(ExpandingArray<2>, kernel_size, 1)
  KW_OPTION(ExpandingArray<2>, stride, 1)
  KW_OPTION(ExpandingArray<2>, padding, 0)
  KW_OPTION(ExpandingArray<2>, dilation, 1)
  KW_OPTION(bool, ceil_mode, false)
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
  KW_OPTION(std::vector<int64_t>, normalized_shape, {})
  KW_OPTION(Tensor, weight, Tensor())
  KW_OPTION(Tensor, bias, Tensor())
  KW_OPTION(double, eps, 1e-5)
};
#undef KW_OPTION

inline std::optional<Tensor> given(const Tensor& x) { return x.defined() ? std::optional<Tensor>(x) : std::nullopt; }

inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
  return kernelwright::linear(x, weight, given(bias));
}
inline Tensor relu(Tensor x, const ReLUFuncOptions& options = {}) { return options.inplace() ? x.relu_() : x.relu(); }
inline Tensor gelu(const Tensor& x, const GELUFuncOptions& options = {}) {
  return kernelwright::gelu(x, options.approximate());
}
inline Tensor silu(const Tensor& x) { return kernelwright::silu(x); }
inline Tensor mish(const Tensor& x) { return kernelwright::mish(x); }
inline Tensor leaky_relu(Tensor x, const LeakyReLUFuncOptions& options = {}) {
  return options.inplace() ? leaky_relu_(x, options.negative_slope()) : kernelwright::leaky_relu(x, options.negative_slope());
}
inline Tensor elu(Tensor x, const ELUFuncOptions& options = {}) {
  return options.inplace() ? elu_(x, options.alpha()) : kernelwright::elu(x, options.alpha());
}
inline Tensor softplus(const Tensor& x, const SoftplusFuncOptions& options = {}) {
  return kernelwright::softplus(x, options.beta(), options.threshold());
}
inline Tensor softmax(const Tensor& x, const SoftmaxFuncOptions& options) { return x.softmax(options.dim(), options.dtype()); }
inline Tensor log_softmax(const Tensor& x, const LogSoftmaxFuncOptions& options) {
  return x.log_softmax(options.dim(), options.dtype());
}
#define KW_CONVOLUTION(function, D)                                                                            \
  inline Tensor function(const Tensor& x, const Tensor& weight, const ConvFuncOptions<D>& options = {}) {      \
    return kernelwright::function(x, weight, given(options.bias()), IntArrayRef(options.stride()),             \
                                  IntArrayRef(options.padding()), IntArrayRef(options.dilation()), options.groups()); \
  }
KW_CONVOLUTION(conv1d, 1)
KW_CONVOLUTION(conv2d, 2)
KW_CONVOLUTION(conv3d, 3)
#undef KW_CONVOLUTION
inline Tensor max_pool2d(const Tensor& x, const MaxPool2dFuncOptions& options) {
  return kernelwright::max_pool2d(x, options.kernel_size(), options.stride(), options.padding(), options.dilation(),
                                  options.ceil_mode());
}
inline Tensor layer_norm(const Tensor& x, const LayerNormFuncOptions& options) {
  return kernelwright::layer_norm(x, options.normalized_shape(), given(options.weight()), given(options.bias()), options.eps());
}

}  // namespace nn::functional

}  // namespace kernelwright

#endif  // KW_FUNCTIONAL_H
