// Tensors, their properties and the small values around them.
#include "real.h"

#include <ATen/Parallel.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/ParallelGuard.h>

#include "kernelwright/bindings.h"
#include "kernelwright/parallel.h"

// Where a tensor keeps its shape; the build that compiles this file reads the numbers out of the object.
extern "C" __attribute__((used)) const uint64_t kernelwright_layout[] = {
    0x6b65726e656c7772ull,
    0x696768746c61796full,
    offsetof(c10::TensorImpl, numel_),
    offsetof(c10::TensorImpl, sizes_and_strides_),
    offsetof(c10::TensorImpl, storage_offset_),
    C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE,
    static_cast<uint64_t>(c10::ScalarType::Undefined),
};

namespace kernelwright {

const char* toString(ScalarType type) { return c10::toString(real(type)); }
size_t elementSize(ScalarType type) { return c10::elementSize(real(type)); }
bool isFloatingType(ScalarType type) { return c10::isFloatingType(real(type)); }
bool isIntegralType(ScalarType type, bool include_bool) { return c10::isIntegralType(real(type), include_bool); }
std::string_view TypeMeta::cpp_name(ScalarType type) {
  const auto name = c10::scalarTypeToTypeMeta(real(type)).name();
  return {name.data(), name.size()};
}
std::string DeviceTypeName(DeviceType type, bool lower_case) {
  return c10::DeviceTypeName(static_cast<c10::DeviceType>(type), lower_case);
}
Device::Device(const std::string& text) : type_(kCPU), index_(-1) {
  const c10::Device device(text);
  type_ = static_cast<DeviceType>(device.type());
  index_ = device.index();
}
std::ostream& operator<<(std::ostream& out, MemoryFormat format) { return out << real(format); }
std::ostream& operator<<(std::ostream& out, Layout layout) { return out << real(layout); }
ScalarType TensorOptions::default_dtype() {
  return static_cast<ScalarType>(c10::typeMetaToScalarType(at::get_default_dtype()));
}

namespace detail {

void* const undefined_impl = c10::UndefinedTensorImpl::singleton();

void retain(void* impl) {
  if (impl != undefined_impl) c10::raw::intrusive_ptr::incref(static_cast<c10::TensorImpl*>(impl));
}
void release(void* impl) { c10::raw::intrusive_ptr::decref(static_cast<c10::TensorImpl*>(impl)); }
void bad_dimension(int64_t index, int64_t dimensions) {
  c10::maybe_wrap_dim(index, dimensions, /*wrap_scalar=*/false);
  TORCH_CHECK_INDEX(false, "dimension ", index, " out of range for ", dimensions, " dimensions");
}
void undefined_shape() { TORCH_CHECK(false, "sizes() called on an undefined Tensor"); }

void* data_pointer(const Tensor& tensor, ScalarType type, bool writable) {
  switch (type) {
#define KW_POINTER(T, N)                                                                       \
  case ScalarType::N: {                                                                        \
    using U = c10::impl::ScalarTypeToCPPTypeT<c10::ScalarType::N>;                             \
    if (writable) return real(tensor).mutable_data_ptr<U>();                                   \
    return const_cast<U*>(real(tensor).const_data_ptr<U>());                                   \
  }
    KW_FORALL_TYPES(KW_POINTER)
#undef KW_POINTER
    default:
      TORCH_CHECK(false, "elements of this type have no C++ type here");
  }
}

void fail(Fault fault, const char* function, const char* file, unsigned line, const char* condition,
          const std::string& message) {
  const c10::SourceLocation place{function, file, line};
  const std::string text = message.empty() ? std::string("Expected ") + condition + " to be true, but got false." : message;
  switch (fault) {
    case Fault::Index: throw c10::IndexError(place, text);
    case Fault::Value: throw c10::ValueError(place, text);
    case Fault::Type: throw c10::TypeError(place, text);
    case Fault::NotImplemented: throw c10::NotImplementedError(place, text);
    case Fault::Internal: throw c10::Error(place, std::string(condition) + " INTERNAL ASSERT FAILED: " + message);
    case Fault::Error: break;
  }
  throw c10::Error(place, text);
}
void warn(const char* function, const char* file, unsigned line, const std::string& message) {
  c10::warn(c10::Warning(c10::UserWarning(), {function, file, line}, message, false));
}

Tensor tensor_of(const void* data, ScalarType type, IntArrayRef sizes, const TensorOptions& options) {
  auto kept = c10::typeMetaToScalarType(at::get_default_dtype());
  if (type == kInt || type == kLong) kept = c10::kLong;
  else if (type != kFloat && type != kDouble) kept = real(type);
  const auto wanted = options.has_dtype() ? real(*options.scalar_type_opt()) : kept;
  const auto view = at::from_blob(const_cast<void*>(data), real(sizes), at::TensorOptions().dtype(real(type)));
  return finish(view.to(real(options).dtype(wanted), false, true), options);
}

}  // namespace detail

size_t Tensor::use_count() const { return real(*this).use_count(); }
ScalarType Tensor::scalar_type() const { return static_cast<ScalarType>(real(*this).scalar_type()); }
Device Tensor::device() const {
  const auto device = real(*this).device();
  return Device(static_cast<DeviceType>(device.type()), device.index());
}
Layout Tensor::layout() const { return static_cast<Layout>(real(*this).layout()); }
bool Tensor::is_contiguous(MemoryFormat format) const { return real(*this).is_contiguous(real(format)); }
bool Tensor::is_non_overlapping_and_dense() const { return real(*this).is_non_overlapping_and_dense(); }
MemoryFormat Tensor::suggest_memory_format(bool exact) const {
  return static_cast<MemoryFormat>(real(*this).suggest_memory_format(exact));
}
bool Tensor::is_complex() const { return real(*this).is_complex(); }
bool Tensor::is_alias_of(const Tensor& other) const { return real(*this).is_alias_of(real(other)); }
size_t Tensor::nbytes() const { return real(*this).nbytes(); }
std::string Tensor::toString() const { return real(*this).toString(); }
void Tensor::print() const { real(*this).print(); }
Tensor Tensor::contiguous(MemoryFormat format) const { return lean(real(*this).contiguous(real(format))); }
Tensor Tensor::data() const { return lean(at::Tensor(real(*this).data())); }
bool Tensor::requires_grad() const { return real(*this).requires_grad(); }
const Tensor& Tensor::set_requires_grad(bool on) const {
  real(*this).set_requires_grad(on);
  return *this;
}
void* Tensor::data_ptr() const { return real(*this).data_ptr(); }
Scalar Tensor::item() const { return lean(real(*this).item()); }
Tensor Tensor::operator[](const Tensor& index) const { return lean(real(*this)[real(index)]); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << real(tensor); }

Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  return finish(at::from_blob(data, real(sizes), real(options)), options);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return finish(at::from_blob(data, real(sizes), real(strides), real(options)), options);
}
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter, const TensorOptions& options) {
  return finish(at::from_blob(data, real(sizes), deleter, real(options)), options);
}

AutoGradMode::AutoGradMode(bool enabled) : previous_(at::GradMode::is_enabled()) { at::GradMode::set_enabled(enabled); }
AutoGradMode::~AutoGradMode() { at::GradMode::set_enabled(previous_); }

void set_num_threads(int threads) { at::set_num_threads(threads); }
int get_num_threads() { return at::get_num_threads(); }
int get_thread_num() { return at::get_thread_num(); }
bool in_parallel_region() { return at::in_parallel_region(); }
namespace internal {
void lazy_init_num_threads() { at::internal::lazy_init_num_threads(); }
void set_thread_num(int id) { at::internal::set_thread_num(id); }
namespace {
thread_local std::vector<std::unique_ptr<c10::ParallelGuard>> guards;
}
bool enter_parallel(bool state) {
  guards.push_back(std::make_unique<c10::ParallelGuard>(state));
  return true;
}
void leave_parallel(bool) { guards.pop_back(); }
}  // namespace internal

Value::Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value::~Value() = default;
Value& Value::operator=(Value other) noexcept {
  kind = other.kind;
  tuple = other.tuple;
  integer = other.integer;
  real = other.real;
  tensor = std::move(other.tensor);
  text = std::move(other.text);
  items = std::move(other.items);
  return *this;
}
Value Value::of(Kind kind, int64_t integer, double real) {
  Value v;
  v.kind = kind;
  v.integer = integer;
  v.real = real;
  return v;
}
Value Value::of(kernelwright::Tensor&& tensor) {
  Value v;
  v.kind = Value::Kind::Tensor;
  v.tensor = std::move(tensor);
  return v;
}
Value Value::of(std::string&& text) {
  Value v;
  v.kind = Value::Kind::String;
  v.text = std::move(text);
  return v;
}
Value Value::list(bool tuple) {
  Value v;
  v.kind = Value::Kind::List;
  v.tuple = tuple;
  return v;
}
void Value::push(Value&& item) { items.push_back(std::move(item)); }

}  // namespace kernelwright
