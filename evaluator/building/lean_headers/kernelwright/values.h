// Small values of the tensor interface: array references, devices, layouts, scalars, tensor options.
#ifndef KW_VALUES_H
#define KW_VALUES_H

#include "scalars.h"

namespace kernelwright {

template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;
  constexpr ArrayRef() : data_(nullptr), size_(0) {}
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  template <typename A>
  ArrayRef(const std::vector<T, A>& v) : data_(v.data()), size_(v.size()) {
    static_assert(!std::is_same_v<T, bool>, "ArrayRef<bool> cannot view a std::vector<bool>");
  }
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& a) : data_(a.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&a)[N]) : data_(a), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& list)
      : data_(list.begin() == list.end() ? nullptr : list.begin()), size_(list.size()) {}
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  std::reverse_iterator<const T*> rbegin() const { return std::reverse_iterator<const T*>(end()); }
  std::reverse_iterator<const T*> rend() const { return std::reverse_iterator<const T*>(begin()); }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    if (i >= size_) throw std::out_of_range("ArrayRef: invalid index");
    return data_[i];
  }
  bool equals(ArrayRef other) const { return size_ == other.size_ && std::equal(begin(), end(), other.begin()); }
  ArrayRef slice(size_t from, size_t count) const { return ArrayRef(data_ + from, count); }
  ArrayRef slice(size_t from) const { return slice(from, size_ - from); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }

 private:
  const T* data_;
  size_t size_;
};
template <typename T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <typename T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <typename T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <typename T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) { return a.equals(ArrayRef<T>(b)); }
template <typename T>
bool operator!=(const std::vector<T>& a, ArrayRef<T> b) { return !ArrayRef<T>(a).equals(b); }
template <typename T>
bool operator!=(ArrayRef<T> a, const std::vector<T>& b) { return !a.equals(ArrayRef<T>(b)); }
template <typename T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> list) {
  out << "[";
  for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
  return out << "]";
}
using IntArrayRef = ArrayRef<int64_t>;
using IntList = IntArrayRef;

// An optional list that a single number, a braced list or a vector converts to.
template <typename T>
class OptionalArrayRef {
 public:
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(std::nullopt_t) {}
  template <typename U, typename = std::enable_if_t<std::is_constructible_v<ArrayRef<T>, U&&> &&
                                                    !std::is_convertible_v<U&&, T> &&
                                                    !std::is_same_v<std::decay_t<U>, OptionalArrayRef>>>
  constexpr OptionalArrayRef(U&& value) : value_(std::in_place, std::forward<U>(value)) {}
  constexpr OptionalArrayRef(const std::initializer_list<T>& list) : value_(std::in_place, list) {}
  constexpr OptionalArrayRef(const T& one) : value_(std::in_place, one) {}
  constexpr bool has_value() const { return value_.has_value(); }
  constexpr explicit operator bool() const { return has_value(); }
  constexpr const ArrayRef<T>& value() const { return value_.value(); }
  constexpr const ArrayRef<T>& operator*() const { return *value_; }
  constexpr const ArrayRef<T>* operator->() const { return &*value_; }

 private:
  std::optional<ArrayRef<T>> value_;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;
using std::in_place;
using std::make_optional;
using std::nullopt;
using std::optional;
using std::string_view;
using nullopt_t = std::nullopt_t;
namespace util { using std::nullopt; using std::optional; }

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, HIP = 6, XLA = 9, XPU = 12, MPS = 13, Meta = 14 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;
std::string DeviceTypeName(DeviceType type, bool lower_case = false);
inline std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << DeviceTypeName(type, true); }

struct Device {
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& text);
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_cpu() const { return type_ == kCPU; }
  std::string str() const { return DeviceTypeName(type_, true) + (has_index() ? ":" + std::to_string(index_) : ""); }
  friend bool operator==(const Device& a, const Device& b) { return a.type_ == b.type_ && a.index_ == b.index_; }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

enum class Layout : int8_t { Strided = 0, Sparse = 1, SparseCsr = 2 };
constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
std::ostream& operator<<(std::ostream& out, MemoryFormat format);
std::ostream& operator<<(std::ostream& out, Layout layout);
namespace Reduction { enum Reduction { None, Mean, Sum, END }; }

class Tensor;

// A number of any kind, remembered as it was given.
class Scalar {
 public:
  enum class Kind : int8_t { Double, Long, Bool };
  Scalar() : Scalar(int64_t{0}) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
  Scalar(T value) : kind_(std::is_floating_point_v<T> ? Kind::Double : Kind::Long) {
    if constexpr (std::is_floating_point_v<T>) number_.d = value;
    else number_.i = static_cast<int64_t>(value);
  }
  template <typename T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  Scalar(T value) : kind_(Kind::Bool) { number_.i = value; }
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}
  bool isFloatingPoint() const { return kind_ == Kind::Double; }
  bool isBoolean() const { return kind_ == Kind::Bool; }
  bool isIntegral(bool include_bool) const { return kind_ == Kind::Long || (include_bool && isBoolean()); }
  ScalarType type() const { return isFloatingPoint() ? kDouble : isBoolean() ? kBool : kLong; }
  template <typename T>
  T to() const {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) return T(to<float>());
    else if constexpr (std::is_same_v<T, bool>) return isFloatingPoint() ? number_.d != 0 : number_.i != 0;
    else return isFloatingPoint() ? checked<T>(number_.d) : checked<T>(number_.i);
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return to<bool>(); }
  Half toHalf() const { return to<Half>(); }
  Scalar operator-() const { return isFloatingPoint() ? Scalar(-number_.d) : Scalar(-number_.i); }
  friend std::ostream& operator<<(std::ostream& out, const Scalar& s) {
    return s.isFloatingPoint() ? out << s.number_.d : s.isBoolean() ? out << (s.number_.i ? "true" : "false") : out << s.number_.i;
  }

 private:
  // A number that does not fit is an error, as in torch.
  template <typename T, typename From>
  static T checked(From value) {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (value < static_cast<From>(Limits::lowest()) || value > static_cast<From>(Limits::max()))
        throw std::runtime_error("value cannot be converted without overflow");
    }
    return static_cast<T>(value);
  }
  union { double d; int64_t i; } number_;
  Kind kind_;
};

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(TypeMeta meta) : dtype_(meta.toScalarType()) {}
  TensorOptions(Layout layout) : layout_(layout) {}
  TensorOptions(MemoryFormat format) : memory_format_(format) {}
  template <typename T, typename = std::enable_if_t<std::is_same_v<std::decay_t<T>, Device>>>
  TensorOptions(T&& device) : device_(device) {}
  template <typename... Args, typename = std::enable_if_t<std::is_constructible_v<Device, Args&&...>>>
  TensorOptions(Args&&... args) : device_(Device(std::forward<Args>(args)...)) {}
  TensorOptions device(std::optional<Device> device) const { return with(&TensorOptions::device_, device); }
  template <typename... Args>
  TensorOptions device(Args&&... args) const {
    return device(std::optional<Device>(std::in_place, std::forward<Args>(args)...));
  }
  TensorOptions device_index(DeviceIndex index) const { return device(kCUDA, index); }
  TensorOptions dtype(std::optional<ScalarType> type) const { return with(&TensorOptions::dtype_, type); }
  TensorOptions dtype(std::optional<TypeMeta> meta) const {
    return dtype(meta ? std::optional<ScalarType>(meta->toScalarType()) : std::nullopt);
  }
  TensorOptions dtype(ScalarType type) const { return dtype(std::optional<ScalarType>(type)); }
  TensorOptions dtype(TypeMeta meta) const { return dtype(meta.toScalarType()); }
  template <typename T>
  TensorOptions& dtype() {
    dtype_ = CppTypeToScalarType<T>::value;
    return *this;
  }
  TensorOptions layout(std::optional<Layout> layout) const { return with(&TensorOptions::layout_, layout); }
  TensorOptions requires_grad(std::optional<bool> on) const { return with(&TensorOptions::requires_grad_, on); }
  TensorOptions pinned_memory(std::optional<bool> on) const { return with(&TensorOptions::pinned_memory_, on); }
  TensorOptions memory_format(std::optional<MemoryFormat> f) const { return with(&TensorOptions::memory_format_, f); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  TypeMeta dtype() const { return dtype_ ? *dtype_ : default_dtype(); }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool has_device() const { return device_.has_value(); }
  bool has_dtype() const { return dtype_.has_value(); }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<TypeMeta> dtype_opt() const { return dtype_ ? std::optional<TypeMeta>(*dtype_) : std::nullopt; }
  std::optional<ScalarType> scalar_type_opt() const { return dtype_; }
  std::optional<Layout> layout_opt() const { return layout_; }
  std::optional<bool> requires_grad_opt() const { return requires_grad_; }
  std::optional<bool> pinned_memory_opt() const { return pinned_memory_; }
  std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }

 private:
  static ScalarType default_dtype();
  template <typename T>
  TensorOptions with(std::optional<T> TensorOptions::*field, std::optional<T> value) const {
    TensorOptions changed = *this;
    changed.*field = value;
    return changed;
  }
  std::optional<Device> device_;
  std::optional<ScalarType> dtype_;
  std::optional<Layout> layout_;
  std::optional<bool> requires_grad_, pinned_memory_;
  std::optional<MemoryFormat> memory_format_;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions().dtype(type); }
inline TensorOptions dtype(TypeMeta meta) { return TensorOptions().dtype(meta); }
template <typename T>
TensorOptions dtype() { return TensorOptions().dtype(CppTypeToScalarType<T>::value); }
inline TensorOptions device(Device device) { return TensorOptions().device(device); }
inline TensorOptions layout(Layout layout) { return TensorOptions().layout(layout); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }
inline TensorOptions device_index(DeviceIndex index) { return TensorOptions().device_index(index); }

}  // namespace kernelwright

#endif  // KW_VALUES_H
