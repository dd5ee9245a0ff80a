// Element types: half, bfloat16, the ScalarType enumeration and what maps C++ types to it.
// Complex, quantised and 8-bit float elements are left to torch's real headers.
#ifndef KW_SCALARS_H
#define KW_SCALARS_H

#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#elif !defined(KW_HELPER)  // the helper sees torch's own macros
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define KW_HD C10_HOST_DEVICE inline

namespace kernelwright {

namespace bits {

template <typename To, typename From>
KW_HD To cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// IEEE binary16 to binary32, exact and without branches so that loops over it vectorise.
inline float half_to_float(uint16_t h) {
  const uint32_t wide = (uint32_t)h << 16;
  const uint32_t magnitude = wide + wide;
  const float normal = cast<float>((magnitude >> 4) + (0xE0u << 23)) * 0x1.0p-112f;
  const float subnormal = cast<float>((magnitude >> 17) | (126u << 23)) - 0.5f;
  const uint32_t chosen = magnitude < (1u << 27) ? cast<uint32_t>(subnormal) : cast<uint32_t>(normal);
  return cast<float>((wide & 0x80000000u) | chosen);
}

// IEEE binary32 to binary16, ties to even: adding a power of two lets the float unit round.
inline uint16_t float_to_half(float value) {
  const uint32_t f = cast<uint32_t>(value);
  const uint32_t magnitude = f + f;
  const float saturated = (fabsf(value) * 0x1.0p+112f) * 0x1.0p-110f;
  const uint32_t exponent = magnitude & 0xFF000000u;
  const uint32_t bias = exponent < 0x71000000u ? 0x71000000u : exponent;
  const uint32_t rounded = cast<uint32_t>(cast<float>((bias >> 1) + 0x07800000u) + saturated);
  const uint32_t finite = ((rounded >> 13) & 0x7C00u) + (rounded & 0x0FFFu);
  return (uint16_t)(((f & 0x80000000u) >> 16) | (magnitude > 0xFF000000u ? 0x7E00u : finite));
}

}  // namespace bits

struct alignas(2) Half {
  unsigned short x;
  struct from_bits_t {};
  C10_HOST_DEVICE static constexpr from_bits_t from_bits() { return {}; }
  Half() = default;
  constexpr C10_HOST_DEVICE Half(unsigned short value, from_bits_t) : x(value) {}
  C10_HOST_DEVICE Half(float value) {
#if defined(__CUDA_ARCH__)
    x = __half_as_ushort(__float2half(value));
#else
    x = bits::float_to_half(value);
#endif
  }
  C10_HOST_DEVICE operator float() const {
#if defined(__CUDA_ARCH__)
    return __half2float(__ushort_as_half(x));
#else
    return bits::half_to_float(x);
#endif
  }
#ifdef __CUDACC__
  C10_HOST_DEVICE Half(const __half& value) { x = bits::cast<unsigned short>(value); }
  C10_HOST_DEVICE operator __half() const { return bits::cast<__half>(x); }
#endif
};

struct alignas(2) BFloat16 {
  uint16_t x;
  struct from_bits_t {};
  C10_HOST_DEVICE static constexpr from_bits_t from_bits() { return {}; }
  BFloat16() = default;
  constexpr C10_HOST_DEVICE BFloat16(unsigned short value, from_bits_t) : x(value) {}
  C10_HOST_DEVICE BFloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    x = __bfloat16_as_ushort(__float2bfloat16(value));
#else
    if (value != value) {
      x = 0x7fc0;
    } else {
      const uint32_t f = bits::cast<uint32_t>(value);
      x = (uint16_t)((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
    }
#endif
  }
  C10_HOST_DEVICE operator float() const { return bits::cast<float>((uint32_t)x << 16); }
#ifdef __CUDACC__
  C10_HOST_DEVICE BFloat16(const __nv_bfloat16& value) { x = bits::cast<unsigned short>(value); }
  explicit C10_HOST_DEVICE operator __nv_bfloat16() const { return bits::cast<__nv_bfloat16>(x); }
#endif
};

// Arithmetic as torch defines it: two of a kind give the kind, float and double widen, integers do not.
#define KW_REDUCED(T)                                                                                  \
  KW_HD T operator+(const T& a, const T& b) { return static_cast<float>(a) + static_cast<float>(b); } \
  KW_HD T operator-(const T& a, const T& b) { return static_cast<float>(a) - static_cast<float>(b); } \
  KW_HD T operator*(const T& a, const T& b) { return static_cast<float>(a) * static_cast<float>(b); } \
  KW_HD T operator/(const T& a, const T& b) { return static_cast<float>(a) / static_cast<float>(b); } \
  KW_HD T operator-(const T& a) { return -static_cast<float>(a); }                                    \
  KW_REDUCED_ASSIGN(T, T, +) KW_REDUCED_ASSIGN(T, T, -)                                                \
  KW_REDUCED_ASSIGN(T, T, *) KW_REDUCED_ASSIGN(T, T, /)                                                \
  KW_REDUCED_WIDE(T, float) KW_REDUCED_WIDE(T, double)                                                 \
  KW_REDUCED_INTEGER(T, int) KW_REDUCED_INTEGER(T, int64_t)
#define KW_REDUCED_ASSIGN(T, U, op) \
  KW_HD T& operator op##=(T& a, const U& b) { return a = a op b; }
#define KW_REDUCED_PAIR(T, U, R, op)                                              \
  KW_HD R operator op(T a, U b) { return static_cast<R>(a) op static_cast<R>(b); } \
  KW_HD R operator op(U a, T b) { return static_cast<R>(a) op static_cast<R>(b); }
#define KW_REDUCED_WIDE(T, U)                                          \
  KW_REDUCED_PAIR(T, U, U, +) KW_REDUCED_PAIR(T, U, U, -)              \
  KW_REDUCED_PAIR(T, U, U, *) KW_REDUCED_PAIR(T, U, U, /)
#define KW_REDUCED_INTEGER(T, U)                                                   \
  KW_REDUCED_PAIR_INTEGER(T, U, +) KW_REDUCED_PAIR_INTEGER(T, U, -)                \
  KW_REDUCED_PAIR_INTEGER(T, U, *) KW_REDUCED_PAIR_INTEGER(T, U, /)
#define KW_REDUCED_PAIR_INTEGER(T, U, op)                                          \
  KW_HD T operator op(T a, U b) { return a op static_cast<T>(static_cast<float>(b)); } \
  KW_HD T operator op(U a, T b) { return static_cast<T>(static_cast<float>(a)) op b; }
KW_REDUCED(Half)
KW_REDUCED(BFloat16)
KW_HD float& operator+=(float& a, const Half& b) { return a += static_cast<float>(b); }
KW_HD float& operator-=(float& a, const Half& b) { return a -= static_cast<float>(b); }
KW_HD float& operator*=(float& a, const Half& b) { return a *= static_cast<float>(b); }
KW_HD float& operator/=(float& a, const Half& b) { return a /= static_cast<float>(b); }
KW_HD float& operator+=(float& a, const BFloat16& b) { return a += static_cast<float>(b); }
KW_HD float& operator-=(float& a, const BFloat16& b) { return a -= static_cast<float>(b); }
KW_HD float& operator*=(float& a, const BFloat16& b) { return a *= static_cast<float>(b); }
KW_HD float& operator/=(float& a, const BFloat16& b) { return a /= static_cast<float>(b); }
inline std::ostream& operator<<(std::ostream& out, const Half& value) { return out << (float)value; }
inline std::ostream& operator<<(std::ostream& out, const BFloat16& value) { return out << (float)value; }

// The numbers are torch's; types without a name here have no C++ type in these headers.
enum class ScalarType : int8_t {
  Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, ComplexHalf = 8,
  ComplexFloat = 9, ComplexDouble = 10, Bool = 11, BFloat16 = 15, Float8_e5m2 = 23, Float8_e4m3fn = 24,
  UInt16 = 27, UInt32 = 28, UInt64 = 29, Undefined = KW_UNDEFINED_SCALAR_TYPE,
};

#ifndef KW_HELPER
#define AT_FORALL_SCALAR_TYPES(_) \
  _(uint8_t, Byte) _(int8_t, Char) _(int16_t, Short) _(int, Int) _(int64_t, Long) _(float, Float) _(double, Double)
#endif
#define KW_FORALL_TYPES(_)                                                                       \
  AT_FORALL_SCALAR_TYPES(_)                                                                      \
  _(::kernelwright::Half, Half) _(bool, Bool) _(::kernelwright::BFloat16, BFloat16)              \
  _(uint16_t, UInt16) _(uint32_t, UInt32) _(uint64_t, UInt64)

template <typename T>
struct CppTypeToScalarType;
namespace impl {
template <ScalarType N>
struct ScalarTypeToCPPType;
#define KW_MAP_TYPE(T, N)                                                                              \
  }                                                                                                    \
  template <>                                                                                          \
  struct CppTypeToScalarType<T> : std::integral_constant<ScalarType, ScalarType::N> {};                \
  namespace impl {                                                                                     \
  template <>                                                                                          \
  struct ScalarTypeToCPPType<ScalarType::N> { using type = T; };
KW_FORALL_TYPES(KW_MAP_TYPE)
#undef KW_MAP_TYPE
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;
}  // namespace impl

#define KW_NAME_TYPE(T, N) constexpr ScalarType k##N = ScalarType::N;
KW_FORALL_TYPES(KW_NAME_TYPE)
#undef KW_NAME_TYPE
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong;
constexpr ScalarType kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble, kI16 = kShort;
constexpr ScalarType kU8 = kByte, kI8 = kChar, kI32 = kInt, kI64 = kLong, kF16 = kHalf, kF32 = kFloat, kF64 = kDouble;

const char* toString(ScalarType type);
size_t elementSize(ScalarType type);
bool isFloatingType(ScalarType type);
bool isIntegralType(ScalarType type, bool includeBool);
inline bool isReducedFloatingType(ScalarType t) { return t == kHalf || t == kBFloat16; }
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

// A dtype as `Tensor::dtype()` returns it.
class TypeMeta {
 public:
  TypeMeta() = default;
  TypeMeta(ScalarType type) : type_(type) {}
  template <typename T>
  static TypeMeta Make() { return TypeMeta(CppTypeToScalarType<T>::value); }
  ScalarType toScalarType() const { return type_; }
  size_t itemsize() const { return elementSize(type_); }
  std::string_view name() const { return cpp_name(type_); }
  bool isScalarType() const { return type_ != ScalarType::Undefined; }
  template <typename T>
  bool Match() const { return type_ == CppTypeToScalarType<T>::value; }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend std::ostream& operator<<(std::ostream& out, TypeMeta meta) { return out << meta.name(); }

 private:
  static std::string_view cpp_name(ScalarType type);
  ScalarType type_ = ScalarType::Undefined;
};
inline bool operator==(ScalarType a, TypeMeta b) { return a == b.toScalarType(); }
inline bool operator==(TypeMeta a, ScalarType b) { return a.toScalarType() == b; }
inline bool operator!=(ScalarType a, TypeMeta b) { return a != b.toScalarType(); }
inline bool operator!=(TypeMeta a, ScalarType b) { return a.toScalarType() != b; }
inline ScalarType typeMetaToScalarType(TypeMeta meta) { return meta.toScalarType(); }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }
using Dtype = ScalarType;

namespace detail {
inline ScalarType scalar_type(ScalarType type) { return type; }
}  // namespace detail

// The type sums are kept in.
template <typename T, bool is_cuda>
struct AccumulateType { using type = T; };
template <> struct AccumulateType<Half, true> { using type = float; };
template <> struct AccumulateType<Half, false> { using type = float; };
template <> struct AccumulateType<BFloat16, true> { using type = float; };
template <> struct AccumulateType<BFloat16, false> { using type = float; };
template <> struct AccumulateType<float, false> { using type = double; };
#define KW_ACCUMULATE_INTEGER(T)                                       \
  template <> struct AccumulateType<T, true> { using type = int64_t; }; \
  template <> struct AccumulateType<T, false> { using type = int64_t; };
KW_ACCUMULATE_INTEGER(uint8_t) KW_ACCUMULATE_INTEGER(int8_t) KW_ACCUMULATE_INTEGER(int16_t)
KW_ACCUMULATE_INTEGER(int) KW_ACCUMULATE_INTEGER(int64_t)
template <typename T, bool is_cuda>
using acc_type = typename AccumulateType<T, is_cuda>::type;
template <typename T>
struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <typename T>
using opmath_type = typename OpMathType<T>::type;

}  // namespace kernelwright

namespace std {
#define KW_LIMITS(T, low, high, smallest, eps, inf, nan, dig, dig10, maxdig10, mine, mine10, maxe, maxe10, denorm)  \
  template <>                                                                                                        \
  class numeric_limits<T> {                                                                                          \
   public:                                                                                                           \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;             \
    static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_bounded = true;    \
    static constexpr bool is_iec559 = true, is_modulo = false;                                                       \
    static constexpr int digits = dig, digits10 = dig10, max_digits10 = maxdig10, radix = 2;                         \
    static constexpr int min_exponent = mine, min_exponent10 = mine10, max_exponent = maxe, max_exponent10 = maxe10; \
    static constexpr C10_HOST_DEVICE T min() { return T(smallest, T::from_bits()); }                                 \
    static constexpr C10_HOST_DEVICE T lowest() { return T(low, T::from_bits()); }                                   \
    static constexpr C10_HOST_DEVICE T max() { return T(high, T::from_bits()); }                                     \
    static constexpr C10_HOST_DEVICE T epsilon() { return T(eps, T::from_bits()); }                                  \
    static constexpr C10_HOST_DEVICE T infinity() { return T(inf, T::from_bits()); }                                 \
    static constexpr C10_HOST_DEVICE T quiet_NaN() { return T(nan, T::from_bits()); }                                \
    static constexpr C10_HOST_DEVICE T denorm_min() { return T(denorm, T::from_bits()); }                            \
  };
KW_LIMITS(::kernelwright::Half, 0xFBFF, 0x7BFF, 0x0400, 0x1400, 0x7C00, 0x7E00, 11, 3, 5, -13, -4, 16, 4, 0x0001)
KW_LIMITS(::kernelwright::BFloat16, 0xFF7F, 0x7F7F, 0x0080, 0x3C00, 0x7F80, 0x7FC0, 8, 2, 4, -125, -37, 128, 38, 0x0001)
#undef KW_LIMITS
}  // namespace std

#endif  // KW_SCALARS_H
