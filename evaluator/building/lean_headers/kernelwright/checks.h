// TORCH_CHECK and its relatives, and the text they are made of. Exceptions are torch's own, thrown by the helper.
#ifndef KW_CHECKS_H
#define KW_CHECKS_H

#include "values.h"

namespace kernelwright {

template <typename... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  ((out << args), ...);
  return out.str();
}
inline std::string str() { return {}; }
inline std::string str(const char* text) { return text; }

namespace detail {
enum class Fault : int { Error, Index, Value, Type, NotImplemented, Internal };
[[noreturn]] void fail(Fault fault, const char* function, const char* file, unsigned line, const char* condition,
                       const std::string& message);
void warn(const char* function, const char* file, unsigned line, const std::string& message);
}  // namespace detail

}  // namespace kernelwright

#ifndef KW_HELPER  // the helper sees torch's own macros
#define KW_CHECK(fault, cond, ...)                                                                    \
  if (__builtin_expect(static_cast<bool>(!(cond)), 0)) {                                              \
    ::kernelwright::detail::fail(::kernelwright::detail::Fault::fault, __func__, __FILE__, __LINE__,  \
                                 #cond, ::kernelwright::str(__VA_ARGS__));                            \
  }
#define TORCH_CHECK(cond, ...) KW_CHECK(Error, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) KW_CHECK(Index, cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) KW_CHECK(Value, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) KW_CHECK(Type, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) KW_CHECK(NotImplemented, cond, ##__VA_ARGS__)
#define TORCH_CHECK_ARG(cond, argN, ...) TORCH_CHECK(cond, "invalid argument ", argN, ": ", __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...) KW_CHECK(Internal, cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  while (false) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERT(...) do { TORCH_INTERNAL_ASSERT(__VA_ARGS__); } while (false)
#define AT_ASSERTM(cond, ...) do { TORCH_CHECK(cond, ##__VA_ARGS__); } while (false)
#define AT_ERROR(...) do { KW_CHECK(Error, false, ##__VA_ARGS__); } while (false)
#define TORCH_CHECK_OP(a, b, op) \
  TORCH_CHECK((a) op (b), "Check failed: " #a " " #op " " #b " (", (a), " vs. ", (b), "). ")
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK_OP(a, b, ==)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK_OP(a, b, !=)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK_OP(a, b, <=)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK_OP(a, b, <)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK_OP(a, b, >=)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK_OP(a, b, >)
#define TORCH_WARN(...) ::kernelwright::detail::warn(__func__, __FILE__, __LINE__, ::kernelwright::str(__VA_ARGS__))
#define TORCH_WARN_ONCE(...)                           \
  do {                                                 \
    static const bool warned = (TORCH_WARN(__VA_ARGS__), true); \
    (void)warned;                                      \
  } while (false)
#define C10_LIKELY(x) (__builtin_expect(static_cast<bool>(x), 1))
#define C10_UNLIKELY(x) (__builtin_expect(static_cast<bool>(x), 0))
#define C10_ALWAYS_INLINE __attribute__((__always_inline__)) inline
#define C10_UNUSED __attribute__((__unused__))
#define TORCH_API
#define C10_EXPORT
#define C10_API
#define CUDA_KERNEL_ASSERT(cond) assert(cond)
#endif

#endif  // KW_CHECKS_H
