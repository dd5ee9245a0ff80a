// Indexing into tensors from C++ and device code.
#ifndef KW_ACCESSORS_H
#define KW_ACCESSORS_H

#include "checks.h"

namespace kernelwright {

template <typename T>
struct DefaultPtrTraits { using PtrType = T*; };
template <typename T>
struct RestrictPtrTraits { using PtrType = T* __restrict__; };

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  C10_HOST_DEVICE TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return {data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
  }
  C10_HOST ArrayRef<index_t> sizes() const { return ArrayRef<index_t>(sizes_, N); }
  C10_HOST ArrayRef<index_t> strides() const { return ArrayRef<index_t>(strides_, N); }
  C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

template <typename T, template <typename U> class PtrTraits, typename index_t>
class TensorAccessor<T, 1, PtrTraits, index_t> {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  C10_HOST_DEVICE TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE T& operator[](index_t i) { return data_[strides_[0] * i]; }
  C10_HOST_DEVICE const T& operator[](index_t i) const { return data_[strides_[0] * i]; }
  C10_HOST ArrayRef<index_t> sizes() const { return ArrayRef<index_t>(sizes_, 1); }
  C10_HOST ArrayRef<index_t> strides() const { return ArrayRef<index_t>(strides_, 1); }
  C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

// Carries its sizes and strides with it, so that it can be a kernel argument.
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  template <typename source_t>
  C10_HOST GenericPackedTensorAccessor(PtrType data, const source_t* sizes, const source_t* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<index_t>(sizes[i]);
      strides_[i] = static_cast<index_t>(strides[i]);
    }
  }
  C10_HOST_DEVICE decltype(auto) operator[](index_t i) { return at(i); }
  C10_HOST_DEVICE decltype(auto) operator[](index_t i) const { return at(i); }
  C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }

 private:
  C10_HOST_DEVICE decltype(auto) at(index_t i) {
    if constexpr (N == 1) {
      return static_cast<T&>(data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }
  C10_HOST_DEVICE decltype(auto) at(index_t i) const {
    if constexpr (N == 1) {
      return static_cast<const T&>(data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }
  PtrType data_;
  index_t sizes_[N];
  index_t strides_[N];
};
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;

}  // namespace kernelwright

#endif  // KW_ACCESSORS_H
