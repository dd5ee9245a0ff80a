// What pybind11 does for an extension, as far as extensions of candidates go: functions with typed arguments,
// defaults and docstrings. Values cross to Python in the helper; classes and the rest need the real pybind11.
#ifndef KW_BINDINGS_H
#define KW_BINDINGS_H

#include "tensor.h"

struct _object;  // PyObject

namespace kernelwright {

// Any argument or result on its way between C++, Python and the dispatcher.
struct Value {
  enum class Kind : uint8_t { None, Bool, Int, Float, Tensor, String, List, Dtype, Device, Number };
  Value();
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(Value other) noexcept;
  ~Value();
  static Value of(Kind kind, int64_t integer, double real = 0.0);
  static Value of(kernelwright::Tensor&& tensor);
  static Value of(std::string&& text);
  static Value list(bool tuple);
  void push(Value&& item);
  Kind kind = Kind::None;
  bool tuple = false;
  int64_t integer = 0;
  double real = 0.0;
  kernelwright::Tensor tensor;
  std::string text;
  std::vector<Value> items;
};

// What a C++ parameter accepts.
struct Type {
  Value::Kind kind;
  bool optional = false;
  bool tuple = false;
  int64_t low = INT64_MIN, high = INT64_MAX;  // of an integer
  const Type* const* items = nullptr;         // of a list: one for all, or one each for a tuple
  size_t count = 0;
};

namespace detail {

using Kind = Value::Kind;

template <typename T, typename = void>
struct Caster;  // a type without one needs the real pybind11

template <typename T>
struct Caster<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>>> {
  using Limits = std::numeric_limits<T>;
  static constexpr Type type{Kind::Int, false, false, static_cast<int64_t>(Limits::min()),
                             sizeof(T) == 8 ? INT64_MAX : static_cast<int64_t>(Limits::max())};
  static T in(Value& v) { return static_cast<T>(v.integer); }
  static Value out(T x) { return Value::of(Kind::Int, static_cast<int64_t>(x)); }
};
template <>
struct Caster<bool> {
  static constexpr Type type{Kind::Bool};
  static bool in(Value& v) { return v.integer != 0; }
  static Value out(bool x) { return Value::of(Kind::Bool, x); }
};
template <typename T>
struct Caster<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr Type type{Kind::Float};
  static T in(Value& v) { return static_cast<T>(v.real); }
  static Value out(T x) { return Value::of(Kind::Float, 0, static_cast<double>(x)); }
};
template <>
struct Caster<Tensor> {
  static constexpr Type type{Kind::Tensor};
  static Tensor in(Value& v) { return std::move(v.tensor); }
  static Value out(Tensor&& x) { return Value::of(std::move(x)); }
  static Value out(const Tensor& x) { return Value::of(Tensor(x)); }
};
template <>
struct Caster<std::string> {
  static constexpr Type type{Kind::String};
  static std::string in(Value& v) { return std::move(v.text); }
  static Value out(std::string x) { return Value::of(std::move(x)); }
};
template <>
struct Caster<const char*> {
  static constexpr Type type{Kind::String};
  static const char* in(Value& v) { return v.text.c_str(); }
  static Value out(const char* x) { return Value::of(std::string(x)); }
};
template <>
struct Caster<ScalarType> {
  static constexpr Type type{Kind::Dtype};
  static ScalarType in(Value& v) { return static_cast<ScalarType>(v.integer); }
};
template <>
struct Caster<Device> {
  static constexpr Type type{Kind::Device};
  static Device in(Value& v) { return Device(v.text); }
};
template <>
struct Caster<Scalar> {
  static constexpr Type type{Kind::Number};
  static Scalar in(Value& v) {
    return v.kind == Kind::Float ? Scalar(v.real) : v.kind == Kind::Bool ? Scalar(v.integer != 0) : Scalar(v.integer);
  }
};
template <typename T>
struct Caster<std::optional<T>> {
  static constexpr Type made() {
    Type t = Caster<T>::type;
    t.optional = true;
    return t;
  }
  static constexpr Type type = made();
  static std::optional<T> in(Value& v) {
    return v.kind == Kind::None ? std::nullopt : std::optional<T>(Caster<T>::in(v));
  }
  static Value out(std::optional<T> x) { return x ? Caster<T>::out(std::move(*x)) : Value(); }
};
template <typename T>
struct Caster<std::vector<T>> {
  static constexpr const Type* items[] = {&Caster<T>::type};
  static constexpr Type type{Kind::List, false, false, 0, 0, items, 1};
  static std::vector<T> in(Value& v) {
    std::vector<T> list;
    list.reserve(v.items.size());
    for (Value& item : v.items) list.push_back(Caster<T>::in(item));
    return list;
  }
  static Value out(std::vector<T> x) {
    Value v = Value::list(false);
    for (auto&& item : x) v.push(Caster<T>::out(std::move(item)));
    return v;
  }
};
template <typename... T>
struct Caster<std::tuple<T...>> {
  static constexpr const Type* items[] = {&Caster<T>::type...};
  static constexpr Type type{Kind::List, false, true, 0, 0, items, sizeof...(T)};
  static std::tuple<T...> in(Value& v) { return in(v, std::index_sequence_for<T...>()); }
  static Value out(std::tuple<T...> x) { return out(x, std::index_sequence_for<T...>()); }

 private:
  template <size_t... I>
  static std::tuple<T...> in(Value& v, std::index_sequence<I...>) {
    return {Caster<T>::in(v.items[I])...};
  }
  template <size_t... I>
  static Value out(std::tuple<T...>& x, std::index_sequence<I...>) {
    Value v = Value::list(true);
    (v.push(Caster<T>::out(std::move(std::get<I>(x)))), ...);
    return v;
  }
};
template <typename A, typename B>
struct Caster<std::pair<A, B>> {
  static constexpr Type type = Caster<std::tuple<A, B>>::type;
  static std::pair<A, B> in(Value& v) { return {Caster<A>::in(v.items[0]), Caster<B>::in(v.items[1])}; }
  static Value out(std::pair<A, B> x) {
    return Caster<std::tuple<A, B>>::out({std::move(x.first), std::move(x.second)});
  }
};
template <typename T>
struct Caster<ArrayRef<T>> : Caster<std::vector<T>> {};

// An argument for the length of a call; a view needs something to look at.
template <typename T>
struct Kept {
  explicit Kept(Value& v) : value(Caster<T>::in(v)) {}
  T& get() { return value; }
  T value;
};
template <typename T>
struct Kept<ArrayRef<T>> {
  explicit Kept(Value& v) : value(Caster<std::vector<T>>::in(v)), view(value) {}
  ArrayRef<T>& get() { return view; }
  std::vector<T> value;
  ArrayRef<T> view;
};

// A C++ function, callable with values.
struct Call {
  Value (*run)(void* function, Value* arguments);
  void* function;
  const Type* const* types;
  size_t count;
};

template <typename F, typename R, typename... Args>
struct Adapted {
  static constexpr const Type* types[] = {&Caster<std::decay_t<Args>>::type..., nullptr};
  template <typename G>
  static Call call(G&& function) {
    return {&run, new F(std::forward<G>(function)), types, sizeof...(Args)};  // lives as long as its module
  }
  static Value run(void* function, Value* values) {
    return run(*static_cast<F*>(function), values, std::index_sequence_for<Args...>());
  }
  template <size_t... I>
  static Value run(F& function, [[maybe_unused]] Value* values, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      function(static_cast<Args&&>(Kept<std::decay_t<Args>>(values[I]).get())...);
      return Value();
    } else {
      return Caster<std::decay_t<R>>::out(function(static_cast<Args&&>(Kept<std::decay_t<Args>>(values[I]).get())...));
    }
  }
};
template <typename F, typename M>
struct Callable;
template <typename F, typename R, typename... Args>
struct Callable<F, R (F::*)(Args...) const> : Adapted<F, R, Args...> {};
template <typename F, typename R, typename... Args>
struct Callable<F, R (F::*)(Args...)> : Adapted<F, R, Args...> {};
template <typename F, typename = void>
struct Adapter;
template <typename R, typename... Args>
struct Adapter<R (*)(Args...)> : Adapted<R (*)(Args...), R, Args...> {};
template <typename F>
struct Adapter<F, std::void_t<decltype(&F::operator())>> : Callable<F, decltype(&F::operator())> {};

}  // namespace detail

namespace python {

struct none {};
struct arg_v {
  const char* name;
  Value value;
};
struct arg {
  explicit arg(const char* name) : name(name) {}
  template <typename T>
  arg_v operator=(T&& value) const {
    using U = std::decay_t<T>;
    if constexpr (std::is_same_v<U, std::nullopt_t> || std::is_same_v<U, python::none>) return {name, Value()};
    else return {name, detail::Caster<std::decay_t<T>>::out(std::forward<T>(value))};
  }
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
  const char* name;
};
struct gil_scoped_release {
  gil_scoped_release();
  ~gil_scoped_release();
  void* state;
};
struct gil_scoped_acquire {
  gil_scoped_acquire();
  ~gil_scoped_acquire();
  int state;
};
template <typename... Guards>
struct call_guard {};

template <typename F>
struct Wrapped {
  F function;
  bool release;
};

// One overload on its way into a module.
class Definition {
 public:
  Definition(const char* name, detail::Call call);
  ~Definition();
  Definition(const Definition&) = delete;
  void note(const char* doc);
  void note(const arg& argument);
  void note(const arg_v& argument);
  void note(const call_guard<gil_scoped_release>&);
  void torch_errors(bool release);
  struct Data;
  Data* data;
};

class module_ {
 public:
  explicit module_(_object* object) : object_(object) {}
  template <typename F, typename... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    Definition made(name, detail::Adapter<std::decay_t<F>>::call(std::forward<F>(function)));
    (made.note(extra), ...);
    add(made);
    return *this;
  }
  template <typename F, typename... Extra>
  module_& def(const char* name, Wrapped<F> wrapped, const Extra&... extra) {
    Definition made(name, detail::Adapter<F>::call(std::move(wrapped.function)));
    made.torch_errors(wrapped.release);
    (made.note(extra), ...);
    add(made);
    return *this;
  }
  struct Doc {
    module_& owner;
    void operator=(const char* text) { owner.set_doc(text); }
    void operator=(const std::string& text) { owner.set_doc(text.c_str()); }
  };
  Doc doc() { return {*this}; }
  _object* ptr() const { return object_; }

 private:
  void add(Definition& definition);
  void set_doc(const char* text);
  _object* object_;
};
using module = module_;

_object* make_module(const char* name, void (*fill)(module_&));

}  // namespace python

template <typename F>
auto wrap_pybind_function(F&& function) {
  return python::Wrapped<std::decay_t<F>>{std::forward<F>(function), false};
}
template <typename F>
auto wrap_pybind_function_no_gil(F&& function) {
  return python::Wrapped<std::decay_t<F>>{std::forward<F>(function), true};
}

}  // namespace kernelwright

#ifndef KW_HELPER  // the helper sees the real pybind11
namespace pybind11 = kernelwright::python;
namespace py = pybind11;
#endif

#define KW_TEXT_OF(x) #x
#define KW_TEXT(x) KW_TEXT_OF(x)
#define KW_JOIN_OF(a, b) a##b
#define KW_JOIN(a, b) KW_JOIN_OF(a, b)
#define PYBIND11_MODULE(name, variable, ...)                                                    \
  static void KW_JOIN(kw_fill_, name)(::pybind11::module_&);                                    \
  extern "C" __attribute__((visibility("default"))) _object* KW_JOIN(PyInit_, name)() {         \
    return ::kernelwright::python::make_module(KW_TEXT(name), &KW_JOIN(kw_fill_, name));        \
  }                                                                                             \
  void KW_JOIN(kw_fill_, name)([[maybe_unused]] ::pybind11::module_& variable)

#endif  // KW_BINDINGS_H
