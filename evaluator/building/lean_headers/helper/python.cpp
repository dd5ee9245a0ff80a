// Values between Python and C++: what pybind11 does for ordinary extensions.
#include <Python.h>

#include <torch/csrc/Dtype.h>
#include <torch/csrc/Device.h>

#include "real.h"

#include "objects.inc"

#include "kernelwright/bindings.h"

namespace kernelwright {

using Kind = Value::Kind;

struct python::Definition::Data {
  std::string name, doc;
  detail::Call call;
  std::vector<std::string> names;
  std::vector<std::optional<Value>> defaults;
  bool torch_errors = false, release = false;
};

namespace {

// Thrown with Python's error already set.
struct Raised {};

bool is_tensor(PyObject* object) {
  auto* type = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  return type && (Py_TYPE(object) == type || PyObject_TypeCheck(object, type));
}
const at::Tensor& tensor_in(const at::Tensor& held) { return held; }
[[maybe_unused]] const at::Tensor& tensor_in(const c10::MaybeOwned<at::Tensor>& held) { return *held; }

bool take_integer(PyObject* object, const Type& type, Value& out) {
  if (PyFloat_Check(object)) return false;
  PyObject* index = PyNumber_Index(object);
  if (!index) {
    PyErr_Clear();
    return false;
  }
  int overflow = 0;
  out.integer = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  return !overflow && out.integer >= type.low && out.integer <= type.high;
}

bool take_bool(PyObject* object, Value& out) {
  if (object == Py_True || object == Py_False) {
    out.integer = object == Py_True;
    return true;
  }
  const auto* number = Py_TYPE(object)->tp_as_number;
  if (!number || !number->nb_bool || PyObject_TypeCheck(object, &PyUnicode_Type)) return false;
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) {
    PyErr_Clear();
    return false;
  }
  out.integer = truth;
  return true;
}

bool take_float(PyObject* object, Value& out) {
  out.real = PyFloat_AsDouble(object);
  if (out.real != -1.0 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

bool take(PyObject* object, const Type& type, Value& out);

bool take_list(PyObject* object, const Type& type, Value& out) {
  if (!PySequence_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object)) return false;
  PyObject* fast = PySequence_Fast(object, "expected a sequence");
  if (!fast) {
    PyErr_Clear();
    return false;
  }
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(fast));
  bool taken = !type.tuple || count == type.count;
  out.items.resize(taken ? count : 0);
  for (size_t i = 0; taken && i < count; ++i)
    taken = take(PySequence_Fast_GET_ITEM(fast, i), *type.items[type.tuple ? i : 0], out.items[i]);
  Py_DECREF(fast);
  return taken;
}

bool take_number(PyObject* object, Value& out) {
  out.kind = PyBool_Check(object) ? Kind::Bool : PyFloat_Check(object) ? Kind::Float : Kind::Int;
  if (out.kind == Kind::Bool) return take_bool(object, out);
  if (out.kind == Kind::Float) return take_float(object, out);
  return take_integer(object, Type{Kind::Int}, out);
}

// Whether a Python object fits a C++ type, by pybind11's rules.
bool take(PyObject* object, const Type& type, Value& out) {
  if (type.optional && object == Py_None) return true;
  out.kind = type.kind;
  switch (type.kind) {
    case Kind::None: return object == Py_None;
    case Kind::Bool: return take_bool(object, out);
    case Kind::Int: return take_integer(object, type, out);
    case Kind::Float: return take_float(object, out);
    case Kind::Number: return take_number(object, out);
    case Kind::List: return take_list(object, type, out);
    case Kind::Tensor:
      if (!is_tensor(object)) return false;
      out.tensor = lean(tensor_in(reinterpret_cast<THPVariable*>(object)->cdata));
      return true;
    case Kind::String: {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
      if (!text) {
        PyErr_Clear();
        return false;
      }
      out.text.assign(text, size);
      return true;
    }
    case Kind::Dtype:
      if (!THPDtype_Check(object)) return false;
      out.integer = static_cast<int64_t>(reinterpret_cast<THPDtype*>(object)->scalar_type);
      return true;
    case Kind::Device:
      if (PyUnicode_Check(object)) out.text = PyUnicode_AsUTF8(object);
      else if (THPDevice_Check(object)) out.text = reinterpret_cast<THPDevice*>(object)->device.str();
      else return false;
      return true;
  }
  return false;
}

PyObject* give(Value& value) {
  switch (value.kind) {
    case Kind::Bool: return PyBool_FromLong(value.integer != 0);
    case Kind::Int: return PyLong_FromLongLong(value.integer);
    case Kind::Float: return PyFloat_FromDouble(value.real);
    case Kind::Tensor: return THPVariable_Wrap(real(value.tensor));
    case Kind::String: return PyUnicode_FromStringAndSize(value.text.data(), static_cast<Py_ssize_t>(value.text.size()));
    case Kind::List: {
      const auto count = static_cast<Py_ssize_t>(value.items.size());
      PyObject* made = value.tuple ? PyTuple_New(count) : PyList_New(count);
      for (Py_ssize_t i = 0; made && i < count; ++i) {
        PyObject* item = give(value.items[i]);
        if (!item) {
          Py_DECREF(made);
          return nullptr;
        }
        if (value.tuple) PyTuple_SET_ITEM(made, i, item);
        else PyList_SET_ITEM(made, i, item);
      }
      return made;
    }
    default: Py_RETURN_NONE;
  }
}

using Overload = python::Definition::Data;
struct Overloads {
  std::vector<Overload> functions;
  PyMethodDef definition{};
};

// Arguments by position and name into values; false when they do not fit this overload.
bool bind(const Overload& f, PyObject* const* args, Py_ssize_t count, PyObject* names, std::vector<Value>& values) {
  const size_t wanted = f.call.count;
  if (static_cast<size_t>(count) > wanted) return false;
  values.assign(wanted, Value());
  std::vector<char> given(wanted, 0);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!take(args[i], *f.call.types[i], values[i])) return false;
    given[i] = 1;
  }
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
    size_t at = 0;
    while (at < f.names.size() && f.names[at] != name) ++at;
    if (at >= f.names.size() || at >= wanted || given[at] || !take(args[count + i], *f.call.types[at], values[at])) return false;
    given[at] = 1;
  }
  for (size_t i = 0; i < wanted; ++i) {
    if (given[i]) continue;
    if (i >= f.defaults.size() || !f.defaults[i]) return false;
    values[i] = *f.defaults[i];
    if (f.call.types[i]->kind == Kind::Float && values[i].kind == Kind::Int) values[i].real = static_cast<double>(values[i].integer);
    if (f.call.types[i]->kind == Kind::Int && values[i].kind == Kind::Float) values[i].integer = static_cast<int64_t>(values[i].real);
  }
  return true;
}

// As pybind11 translates the standard exceptions; torch's translation does the rest.
void translate(bool torch_errors) {
  try {
    throw;
  } catch (const Raised&) {
    return;
  } catch (...) {
  }
  if (!torch_errors) {
    try {
      throw;
    } catch (const c10::Error&) {
    } catch (const std::domain_error& e) {
      return PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const std::invalid_argument& e) {
      return PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const std::length_error& e) {
      return PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const std::out_of_range& e) {
      return PyErr_SetString(PyExc_IndexError, e.what());
    } catch (const std::range_error& e) {
      return PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const std::overflow_error& e) {
      return PyErr_SetString(PyExc_OverflowError, e.what());
    } catch (const std::bad_alloc& e) {
      return PyErr_SetString(PyExc_MemoryError, e.what());
    } catch (...) {
    }
  }
  torch::translate_exception_to_python(std::current_exception());
}

PyObject* invoke(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  auto* overloads = static_cast<Overloads*>(PyCapsule_GetPointer(self, nullptr));
  std::vector<Value> values;
  for (const auto& f : overloads->functions) {
    try {
      if (!bind(f, args, count, names, values)) continue;
      std::optional<python::gil_scoped_release> released;
      if (f.release) released.emplace();
      Value result = f.call.run(f.call.function, values.data());
      released.reset();
      return give(result);
    } catch (...) {
      translate(f.torch_errors);
      return nullptr;
    }
  }
  std::string kinds;
  for (Py_ssize_t i = 0; i < count; ++i) kinds += std::string(i ? ", " : "") + Py_TYPE(args[i])->tp_name;
  const auto& first = overloads->functions.front();
  PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments: it takes %zu, invoked with: %s",
               first.name.c_str(), first.call.count, kinds.c_str());
  return nullptr;
}

}  // namespace

namespace python {

Definition::Definition(const char* name, detail::Call call) : data(new Data{name, {}, call, {}, {}}) {}
Definition::~Definition() { delete data; }
void Definition::note(const char* doc) { data->doc = doc; }
void Definition::note(const arg& argument) {
  data->names.emplace_back(argument.name);
  data->defaults.emplace_back();
}
void Definition::note(const arg_v& argument) {
  data->names.emplace_back(argument.name);
  data->defaults.emplace_back(argument.value);
}
void Definition::note(const call_guard<gil_scoped_release>&) { data->release = true; }
void Definition::torch_errors(bool release) {
  data->torch_errors = true;
  data->release = release;
}

void module_::add(Definition& definition) {
  Overload& added = *definition.data;
  if (PyObject* known = PyObject_GetAttrString(object_, added.name.c_str())) {
    PyObject* self = PyCFunction_Check(known) ? PyCFunction_GetSelf(known) : nullptr;
    const bool overloaded = self && PyCapsule_CheckExact(self);
    if (overloaded) static_cast<Overloads*>(PyCapsule_GetPointer(self, nullptr))->functions.push_back(std::move(added));
    Py_DECREF(known);
    if (overloaded) return;
  }
  PyErr_Clear();
  auto* made = new Overloads;  // lives as long as the module does, which is never unloaded
  char* name = strdup(added.name.c_str());
  made->definition = {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&invoke)), METH_FASTCALL | METH_KEYWORDS,
                      strdup(added.doc.c_str())};
  made->functions.push_back(std::move(added));
  PyObject* self = PyCapsule_New(made, nullptr, nullptr);
  PyObject* callable = self ? PyCFunction_New(&made->definition, self) : nullptr;
  Py_XDECREF(self);
  if (!callable || PyModule_AddObject(object_, name, callable) < 0) throw Raised();
}

void module_::set_doc(const char* text) { PyModule_SetDocString(object_, text); }

_object* make_module(const char* name, void (*fill)(module_&)) {
  auto* definition = new PyModuleDef{PyModuleDef_HEAD_INIT, strdup(name), nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* object = PyModule_Create(definition);
  if (!object) return nullptr;
  try {
    module_ made(object);
    fill(made);
  } catch (...) {
    Py_DECREF(object);
    translate(true);
    return nullptr;
  }
  return object;
}

gil_scoped_release::gil_scoped_release() : state(PyEval_SaveThread()) {}
gil_scoped_release::~gil_scoped_release() { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }
gil_scoped_acquire::gil_scoped_acquire() : state(PyGILState_Ensure()) {}
gil_scoped_acquire::~gil_scoped_acquire() { PyGILState_Release(static_cast<PyGILState_STATE>(state)); }

}  // namespace python

}  // namespace kernelwright
