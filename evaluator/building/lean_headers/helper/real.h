// Lean values as torch's real ones and back. A tensor, and any container of tensors, is the same bytes.
#ifndef KW_REAL_H
#define KW_REAL_H

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#define KW_HELPER
#define KW_UNDEFINED_SCALAR_TYPE static_cast<int8_t>(c10::ScalarType::Undefined)
#include "kernelwright/tensor.h"

namespace kernelwright {

static_assert(sizeof(Tensor) == sizeof(at::Tensor) && alignof(Tensor) == alignof(at::Tensor));
static_assert(sizeof(std::optional<Tensor>) == sizeof(std::optional<at::Tensor>));
static_assert(sizeof(Half) == sizeof(at::Half) && sizeof(BFloat16) == sizeof(at::BFloat16));
#define KW_SAME_NUMBER(T, N) static_assert(static_cast<int>(ScalarType::N) == static_cast<int>(c10::ScalarType::N));
KW_FORALL_TYPES(KW_SAME_NUMBER)
#undef KW_SAME_NUMBER
static_assert(static_cast<int>(DeviceType::CUDA) == static_cast<int>(c10::DeviceType::CUDA));
static_assert(static_cast<int>(DeviceType::Meta) == static_cast<int>(c10::DeviceType::Meta));
static_assert(static_cast<int>(MemoryFormat::ChannelsLast3d) == static_cast<int>(c10::MemoryFormat::ChannelsLast3d));

inline const at::Tensor& real(const Tensor& x) { return reinterpret_cast<const at::Tensor&>(x); }
inline at::Tensor& real(Tensor& x) { return reinterpret_cast<at::Tensor&>(x); }
inline const std::optional<at::Tensor>& real(const std::optional<Tensor>& x) {
  return reinterpret_cast<const std::optional<at::Tensor>&>(x);
}
inline at::IntArrayRef real(IntArrayRef x) { return {x.data(), x.size()}; }
inline at::ArrayRef<double> real(ArrayRef<double> x) { return {x.data(), x.size()}; }
inline at::OptionalIntArrayRef real(OptionalIntArrayRef x) {
  return x.has_value() ? at::OptionalIntArrayRef(real(x.value())) : at::OptionalIntArrayRef();
}
inline at::TensorList real(TensorList x) { return {reinterpret_cast<const at::Tensor*>(x.data()), x.size()}; }
inline c10::ScalarType real(ScalarType x) { return static_cast<c10::ScalarType>(x); }
inline c10::MemoryFormat real(MemoryFormat x) { return static_cast<c10::MemoryFormat>(x); }
inline c10::Layout real(Layout x) { return static_cast<c10::Layout>(x); }
inline c10::Device real(Device x) { return {static_cast<c10::DeviceType>(x.type()), x.index()}; }
inline at::Scalar real(const Scalar& x) {
  if (x.isFloatingPoint()) return x.toDouble();
  if (x.isBoolean()) return x.toBool();
  return x.toLong();
}
inline at::TensorOptions real(const TensorOptions& x) {
  at::TensorOptions o;
  if (x.has_dtype()) o = o.dtype(real(*x.scalar_type_opt()));
  if (x.has_device()) o = o.device(real(x.device()));
  if (x.layout_opt()) o = o.layout(real(*x.layout_opt()));
  if (x.pinned_memory_opt()) o = o.pinned_memory(*x.pinned_memory_opt());
  if (x.memory_format_opt()) o = o.memory_format(real(*x.memory_format_opt()));
  return o;  // requires_grad is applied to the result
}
inline int64_t real(int64_t x) { return x; }
inline double real(double x) { return x; }
inline bool real(bool x) { return x; }
inline std::string_view real(std::string_view x) { return x; }
template <typename T>
auto real(const std::optional<T>& x) -> std::optional<std::decay_t<decltype(real(*x))>> {
  if (!x) return std::nullopt;
  return real(*x);
}

inline Tensor lean(at::Tensor&& x) { return Tensor::adopt(x.unsafeReleaseTensorImpl()); }
inline Tensor lean(const at::Tensor& x) { return lean(at::Tensor(x)); }
inline Scalar lean(const at::Scalar& x) {
  if (x.isFloatingPoint()) return x.toDouble();
  if (x.isBoolean()) return x.toBool();
  TORCH_CHECK(x.isIntegral(false), "complex numbers need torch's real headers");
  return x.toLong();
}
inline bool lean(bool x) { return x; }
inline int64_t lean(int64_t x) { return x; }
inline double lean(double x) { return x; }
inline std::vector<Tensor> lean(std::vector<at::Tensor>&& x) {
  return std::move(reinterpret_cast<std::vector<Tensor>&>(x));
}
template <typename... T>
auto lean(std::tuple<T...>&& x) {
  return std::apply([](auto&&... item) { return std::make_tuple(lean(std::move(item))...); }, std::move(x));
}

// A factory's result: autograd is asked for afterwards, because ATen's own factories refuse it.
inline Tensor finish(at::Tensor&& made, const TensorOptions& options) {
  if (options.requires_grad()) made.set_requires_grad(true);
  return lean(std::move(made));
}

}  // namespace kernelwright

#endif  // KW_REAL_H
