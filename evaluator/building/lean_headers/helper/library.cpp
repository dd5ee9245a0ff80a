// Values between the dispatcher and C++: what torch::Library does for ordinary extensions.
#include <torch/library.h>

#include "real.h"

#include "kernelwright/library.h"

namespace kernelwright {

using Kind = Value::Kind;

namespace {

Value from_ivalue(const c10::IValue& x, const Type& type) {
  Value v;
  v.kind = type.kind;
  if (x.isNone()) v.kind = Kind::None;
  else if (x.isTensor()) v.tensor = lean(x.toTensor());
  else if (x.isInt()) { v.integer = x.toInt(); v.real = static_cast<double>(v.integer); }
  else if (x.isDouble()) v.real = x.toDouble();
  else if (x.isBool()) v.integer = x.toBool();
  else if (x.isString()) v.text = x.toStringRef();
  else if (x.isDevice()) v.text = x.toDevice().str();
  else {
    TORCH_CHECK(x.isList(), "this argument needs torch's real headers");
    for (const c10::IValue& item : x.toListRef()) v.items.push_back(from_ivalue(item, *type.items[0]));
  }
  if (type.kind == Kind::Number) v.kind = x.isDouble() ? Kind::Float : x.isBool() ? Kind::Bool : Kind::Int;
  return v;
}

c10::IValue to_ivalue(Value& v, const c10::TypePtr& type) {
  switch (v.kind) {
    case Kind::Tensor: return real(v.tensor);
    case Kind::Bool: return v.integer != 0;
    case Kind::Int: return v.integer;
    case Kind::Float: return v.real;
    case Kind::String: return v.text;
    case Kind::List: {
      c10::impl::GenericList list(type->castRaw<c10::ListType>()->getElementType());
      for (Value& item : v.items) list.push_back(to_ivalue(item, list.elementType()));
      return list;
    }
    default: return {};
  }
}

struct Boxed final : c10::OperatorKernel {
  explicit Boxed(detail::Call call) : call(call) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const auto& schema = op.schema();
    TORCH_CHECK(schema.arguments().size() == call.count, "the function takes ", call.count, " arguments, its schema ",
                schema.arguments().size());
    std::vector<Value> values;
    values.reserve(call.count);
    for (size_t i = 0; i < call.count; ++i)
      values.push_back(from_ivalue(torch::jit::peek(*stack, i, call.count), *call.types[i]));
    torch::jit::drop(*stack, call.count);
    Value result = call.run(call.function, values.data());
    const auto& returns = schema.returns();
    if (returns.size() == 1) {
      stack->push_back(to_ivalue(result, returns[0].type()));
    } else {
      for (size_t i = 0; i < returns.size(); ++i) stack->push_back(to_ivalue(result.items.at(i), returns[i].type()));
    }
  }
  detail::Call call;
};

torch::CppFunction boxed(detail::Call call) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Boxed>(call));
}

}  // namespace

Library::Library(Kind kind, const char* space, const char* key, const char* file, unsigned line)
    : real_(new torch::Library(kind == DEF        ? torch::Library::DEF
                               : kind == FRAGMENT ? torch::Library::FRAGMENT
                                                  : torch::Library::IMPL,
                               space,
                               key ? std::make_optional(c10::parseDispatchKey(key)) : std::nullopt,
                               file,
                               line)) {}
Library::~Library() { delete static_cast<torch::Library*>(real_); }
Library& Library::def(const char* schema) {
  static_cast<torch::Library*>(real_)->def(schema);
  return *this;
}
void Library::define(const char* schema, detail::Call call) {
  TORCH_CHECK(strchr(schema, '('), "a schema must be written out here: ", schema);
  static_cast<torch::Library*>(real_)->def(schema, boxed(call));
}
void Library::implement(const char* name, const char* key, detail::Call call) {
  auto function = boxed(call);
  if (key) function = torch::dispatch(c10::parseDispatchKey(key), std::move(function));
  static_cast<torch::Library*>(real_)->impl(name, std::move(function));
}

}  // namespace kernelwright
