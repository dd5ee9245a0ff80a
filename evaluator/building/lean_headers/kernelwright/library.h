// TORCH_LIBRARY: operators registered with torch's dispatcher, called through the same values as bindings.
#ifndef KW_LIBRARY_H
#define KW_LIBRARY_H

#include "bindings.h"

namespace kernelwright {

enum class DispatchKey : int { CPU, CUDA, CompositeExplicitAutograd, CompositeImplicitAutograd, Autograd, Meta };

class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  Library(Kind kind, const char* space, const char* key, const char* file, unsigned line);
  ~Library();
  Library(const Library&) = delete;
  Library& def(const char* schema);
  Library& def(const std::string& schema) { return def(schema.c_str()); }
  template <typename F>
  Library& def(const char* schema, F&& function) {
    define(schema, detail::Adapter<std::decay_t<F>>::call(std::forward<F>(function)));
    return *this;
  }
  template <typename F>
  Library& impl(const char* name, F&& function) {
    implement(name, nullptr, detail::Adapter<std::decay_t<F>>::call(std::forward<F>(function)));
    return *this;
  }
  template <typename F>
  Library& impl(const char* name, DispatchKey key, F&& function) {
    implement(name, key_name(key), detail::Adapter<std::decay_t<F>>::call(std::forward<F>(function)));
    return *this;
  }

 private:
  static const char* key_name(DispatchKey key) {
    constexpr const char* names[] = {"CPU", "CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd", "Meta"};
    return names[static_cast<int>(key)];
  }
  void define(const char* schema, detail::Call call);
  void implement(const char* name, const char* key, detail::Call call);
  void* real_;
};

namespace detail {
struct LibraryInit {
  LibraryInit(Library::Kind kind, void (*fill)(Library&), const char* space, const char* key, const char* file, unsigned line)
      : library(kind, space, key, file, line) {
    fill(library);
  }
  Library library;
};
}  // namespace detail

}  // namespace kernelwright

#define TORCH_LIBRARY(ns, m)                                                                         \
  static void kw_library_##ns(::kernelwright::Library&);                                             \
  static const ::kernelwright::detail::LibraryInit kw_library_init_##ns(                             \
      ::kernelwright::Library::DEF, &kw_library_##ns, #ns, nullptr, __FILE__, __LINE__);             \
  void kw_library_##ns([[maybe_unused]] ::kernelwright::Library& m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) KW_LIBRARY_FRAGMENT(ns, m, __COUNTER__)
#define KW_LIBRARY_FRAGMENT(ns, m, uid)                                                              \
  static void KW_JOIN(kw_fragment_##ns##_, uid)(::kernelwright::Library&);                           \
  static const ::kernelwright::detail::LibraryInit KW_JOIN(kw_fragment_init_##ns##_, uid)(           \
      ::kernelwright::Library::FRAGMENT, &KW_JOIN(kw_fragment_##ns##_, uid), #ns, nullptr, __FILE__, __LINE__); \
  void KW_JOIN(kw_fragment_##ns##_, uid)([[maybe_unused]] ::kernelwright::Library & m)
#define TORCH_LIBRARY_IMPL(ns, k, m) KW_LIBRARY_IMPL(ns, k, m, __COUNTER__)
#define KW_LIBRARY_IMPL(ns, k, m, uid)                                                               \
  static void KW_JOIN(kw_impl_##ns##_##k##_, uid)(::kernelwright::Library&);                         \
  static const ::kernelwright::detail::LibraryInit KW_JOIN(kw_impl_init_##ns##_##k##_, uid)(         \
      ::kernelwright::Library::IMPL, &KW_JOIN(kw_impl_##ns##_##k##_, uid), #ns, #k, __FILE__, __LINE__); \
  void KW_JOIN(kw_impl_##ns##_##k##_, uid)([[maybe_unused]] ::kernelwright::Library & m)

#endif  // KW_LIBRARY_H
