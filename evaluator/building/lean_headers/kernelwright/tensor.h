// The tensor: the same pointer torch's own holds, so that the helper can pass it on as it is.
//
// Shapes are read inline, at offsets the helper's build measured, because loops ask for them; everything else
// is a call into the helper, which was compiled with torch's real headers. Operators and most methods are
// declared by generated files with torch's own signatures.
#ifndef KW_TENSOR_H
#define KW_TENSOR_H

#include "accessors.h"
#include "checks.h"

namespace kernelwright {

class Tensor;
class Storage;
using TensorList = ArrayRef<Tensor>;

namespace indexing {
constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis{};
struct Slice {
  Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt,
        std::optional<int64_t> step = std::nullopt)
      : start(start), stop(stop), step(step) {}
  std::optional<int64_t> start, stop, step;
};
struct TensorIndex;
}  // namespace indexing

namespace detail {
extern void* const undefined_impl;
void retain(void* impl);
void release(void* impl);
void* data_pointer(const Tensor& tensor, ScalarType type, bool writable);
[[noreturn]] void bad_dimension(int64_t index, int64_t dimensions);
[[noreturn]] void undefined_shape();
}  // namespace detail

class Tensor {
 public:
  Tensor() noexcept : impl_(detail::undefined_impl) {}
  Tensor(const Tensor& other) : impl_(other.impl_) { detail::retain(impl_); }
  Tensor(Tensor&& other) noexcept : impl_(other.impl_) { other.impl_ = detail::undefined_impl; }
  ~Tensor() {
    if (impl_ != detail::undefined_impl) detail::release(impl_);
  }
  Tensor& operator=(const Tensor& other) & {
    Tensor copy(other);
    std::swap(impl_, copy.impl_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor taken(std::move(other));
    std::swap(impl_, taken.impl_);
    return *this;
  }
  // Assigning to a temporary, as in `x[1] = 3`, writes the elements.
  Tensor& operator=(const Scalar& value) && { return fill_(value); }
  Tensor& operator=(const Tensor& other) && { return copy_(other); }
  Tensor& operator=(Tensor&& other) && { return copy_(other); }
  static Tensor adopt(void* impl) {
    Tensor tensor;
    tensor.impl_ = impl;
    return tensor;
  }

  bool defined() const { return impl_ != detail::undefined_impl; }
  void reset() { *this = Tensor(); }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  size_t use_count() const;
#ifndef KW_HELPER
  int64_t dim() const { return static_cast<int64_t>(field<size_t>(KW_SIZES_OFFSET)); }
  int64_t numel() const { return field<int64_t>(KW_NUMEL_OFFSET); }
  int64_t storage_offset() const { return field<int64_t>(KW_STORAGE_OFFSET_OFFSET); }
  IntArrayRef sizes() const { return IntArrayRef(extents(), dim()); }
  IntArrayRef strides() const {
    const int64_t n = dim();
    return IntArrayRef(extents() + (n <= KW_INLINE_DIMENSIONS ? KW_INLINE_DIMENSIONS : n), n);
  }
  int64_t size(int64_t i) const { return sizes()[wrapped(i)]; }
  int64_t stride(int64_t i) const { return strides()[wrapped(i)]; }
  int64_t ndimension() const { return dim(); }
#endif
  ScalarType scalar_type() const;
  TypeMeta dtype() const { return scalar_type(); }
  Device device() const;
  DeviceIndex get_device() const { return device().index(); }
  Layout layout() const;
  TensorOptions options() const { return TensorOptions().dtype(dtype()).device(device()).layout(layout()); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  MemoryFormat suggest_memory_format(bool exact = false) const;
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const;
  bool is_sparse() const { return layout() != kStrided; }
  bool is_alias_of(const Tensor& other) const;
  size_t itemsize() const { return elementSize(scalar_type()); }
  int64_t element_size() const { return static_cast<int64_t>(itemsize()); }
  size_t nbytes() const;
  std::string toString() const;
  void print() const;
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor cpu() const { return to(options().device(kCPU)); }
  Tensor cuda() const { return to(options().device(kCUDA)); }
  Tensor data() const;
  bool requires_grad() const;
  const Tensor& set_requires_grad(bool on) const;
  const Tensor& requires_grad_(bool on = true) const { return set_requires_grad(on); }

  void* data_ptr() const;
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <typename T>
  T* data_ptr() const {
    return static_cast<T*>(detail::data_pointer(*this, CppTypeToScalarType<T>::value, true));
  }
  template <typename T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <typename T>
  T* data() const { return data_ptr<T>(); }
  template <typename T>
  const std::remove_const_t<T>* const_data_ptr() const {
    using U = std::remove_const_t<T>;
    return static_cast<const U*>(detail::data_pointer(*this, CppTypeToScalarType<U>::value, false));
  }
  Scalar item() const;
  template <typename T>
  T item() const { return item().to<T>(); }

#ifndef KW_HELPER
  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    return TensorAccessor<T, N>(elements<T, N>(), sizes().data(), strides().data());
  }
  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, index_t> generic_packed_accessor() const& {
    return GenericPackedTensorAccessor<T, N, PtrTraits, index_t>(elements<T, N>(), sizes().data(), strides().data());
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, index_t> packed_accessor() const& {
    return generic_packed_accessor<T, N, PtrTraits, index_t>();
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const& {
    TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(),
                "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return generic_packed_accessor<T, N, PtrTraits, int32_t>();
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() && = delete;
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const& {
    return generic_packed_accessor<T, N, PtrTraits, int64_t>();
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() && = delete;
#endif

  Tensor operator~() const { return bitwise_not(); }
  Tensor operator-() const { return neg(); }
  Tensor& operator+=(const Tensor& other) { return add_(other); }
  Tensor& operator+=(const Scalar& other) { return add_(other); }
  Tensor& operator-=(const Tensor& other) { return sub_(other); }
  Tensor& operator-=(const Scalar& other) { return sub_(other); }
  Tensor& operator*=(const Tensor& other) { return mul_(other); }
  Tensor& operator*=(const Scalar& other) { return mul_(other); }
  Tensor& operator/=(const Tensor& other) { return div_(other); }
  Tensor& operator/=(const Scalar& other) { return div_(other); }
  Tensor& operator&=(const Tensor& other) { return bitwise_and_(other); }
  Tensor& operator|=(const Tensor& other) { return bitwise_or_(other); }
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor operator[](const Tensor& index) const;
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value);
#include "methods.inc"

 private:
#ifndef KW_HELPER
  template <typename T>
  const T& field(size_t offset) const {
    if (C10_UNLIKELY(!defined())) detail::undefined_shape();
    return *reinterpret_cast<const T*>(static_cast<const char*>(impl_) + offset);
  }
  const int64_t* extents() const {
    if (dim() <= KW_INLINE_DIMENSIONS) return &field<int64_t>(KW_SIZES_OFFSET + sizeof(size_t));
    return field<const int64_t*>(KW_SIZES_OFFSET + sizeof(size_t));
  }
  int64_t wrapped(int64_t i) const {
    const int64_t n = dim(), positive = i < 0 ? i + n : i;
    if (C10_UNLIKELY(positive < 0 || positive >= n)) detail::bad_dimension(i, n);
    return positive;
  }
  template <typename T, size_t N>
  T* elements() const {
    TORCH_CHECK(dim() == N, "TensorAccessor expected ", N, " dims but tensor has ", dim());
    if constexpr (std::is_const_v<T>) return const_data_ptr<T>();
    else return data_ptr<T>();
  }
#endif
  void* impl_;
};

namespace indexing {
struct TensorIndex {
  enum class Kind : int8_t { None, Ellipsis, Integer, Boolean, Slice, Tensor };
  TensorIndex(std::nullopt_t) : kind(Kind::None) {}
  TensorIndex(EllipsisIndexType) : kind(Kind::Ellipsis) {}
  TensorIndex(const char* text) : kind(Kind::Ellipsis) {
    TORCH_CHECK_VALUE(strcmp(text, "...") == 0, "Expected \"...\" to represent an ellipsis index, but got \"", text, "\"");
  }
  TensorIndex(int64_t value) : kind(Kind::Integer), integer(value) {}
  TensorIndex(int value) : TensorIndex(static_cast<int64_t>(value)) {}
  template <class T, class = std::enable_if_t<std::is_same_v<bool, T>>>
  TensorIndex(T value) : kind(Kind::Boolean), integer(value) {}
  TensorIndex(Slice value) : kind(Kind::Slice), slice(value) {}
  TensorIndex(kernelwright::Tensor value) : kind(Kind::Tensor), tensor(std::move(value)) {}
  Kind kind;
  int64_t integer = 0;
  Slice slice;
  kernelwright::Tensor tensor;
};
}  // namespace indexing
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return index(ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), values);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}

#include "functions.inc"

#define KW_ARITHMETIC(op, function)                                                                     \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.function(b); }                  \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return a.function(b); }
KW_ARITHMETIC(+, add) KW_ARITHMETIC(-, sub) KW_ARITHMETIC(*, mul) KW_ARITHMETIC(/, div)
KW_ARITHMETIC(<, lt) KW_ARITHMETIC(<=, le) KW_ARITHMETIC(>, gt) KW_ARITHMETIC(>=, ge)
KW_ARITHMETIC(==, eq) KW_ARITHMETIC(!=, ne)
KW_ARITHMETIC(&, bitwise_and) KW_ARITHMETIC(|, bitwise_or) KW_ARITHMETIC(^, bitwise_xor)
#undef KW_ARITHMETIC
inline Tensor operator+(const Scalar& a, const Tensor& b) { return b.add(a); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return b.mul(a); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return rsub(b, a); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return b.reciprocal().mul(a); }
inline Tensor operator<(const Scalar& a, const Tensor& b) { return b.gt(a); }
inline Tensor operator<=(const Scalar& a, const Tensor& b) { return b.ge(a); }
inline Tensor operator>(const Scalar& a, const Tensor& b) { return b.lt(a); }
inline Tensor operator>=(const Scalar& a, const Tensor& b) { return b.le(a); }
inline Tensor operator==(const Scalar& a, const Tensor& b) { return b.eq(a); }
inline Tensor operator!=(const Scalar& a, const Tensor& b) { return b.ne(a); }

Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter,
                 const TensorOptions& options = {});

namespace detail {
Tensor tensor_of(const void* data, ScalarType type, IntArrayRef sizes, const TensorOptions& options);
}  // namespace detail
template <typename T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {}) {
  return detail::tensor_of(values.data(), CppTypeToScalarType<T>::value, {static_cast<int64_t>(values.size())}, options);
}
template <typename T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<T>(values), options);
}
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<T>(values), options);
}
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>, typename = void>
Tensor tensor(T value, const TensorOptions& options = {}) {
  return detail::tensor_of(&value, CppTypeToScalarType<T>::value, {}, options);
}

struct AutoGradMode {
  explicit AutoGradMode(bool enabled);
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;

 private:
  bool previous_;
};
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};

}  // namespace kernelwright

#endif  // KW_TENSOR_H
