// The CUDA side of the interface: streams, device guards, checks, handles and a few device utilities.
#ifndef KW_CUDA_H
#define KW_CUDA_H

#include <cuda_runtime_api.h>

#include "tensor.h"

struct cublasContext;

namespace kernelwright {

template <typename T>
constexpr C10_HOST_DEVICE T ceil_div(T a, T b) { return (a + b - 1) / b; }

namespace cuda {

DeviceIndex device_count();
DeviceIndex current_device();
void set_device(DeviceIndex device);
DeviceIndex exchange_device(DeviceIndex device);
void device_synchronize();
inline bool is_available() { return device_count() > 0; }

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, DeviceIndex device, int64_t id) : stream_(stream), id_(id), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return device_; }
  Device device() const { return Device(kCUDA, device_); }
  int64_t id() const { return id_; }
  bool query() const;
  void synchronize() const;
  friend bool operator==(const CUDAStream& a, const CUDAStream& b) { return a.id_ == b.id_ && a.device_ == b.device_; }
  friend bool operator!=(const CUDAStream& a, const CUDAStream& b) { return !(a == b); }

 private:
  cudaStream_t stream_;
  int64_t id_;
  DeviceIndex device_;
};
CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
CUDAStream getDefaultCUDAStream(DeviceIndex device = -1);
CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex device = -1);
void setCurrentCUDAStream(CUDAStream stream);

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device) : original_(exchange_device(device)), current_(device) {}
  explicit CUDAGuard(Device device) : CUDAGuard(index_of(device)) {}
  ~CUDAGuard() { exchange_device(original_); }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  void set_device(Device device) { set_index(index_of(device)); }
  void reset_device(Device device) { set_index(index_of(device)); }
  void set_index(DeviceIndex device) { exchange_device(device); current_ = device; }
  Device original_device() const { return Device(kCUDA, original_); }
  Device current_device() const { return Device(kCUDA, current_); }
  static DeviceIndex index_of(Device device) {
    TORCH_CHECK(device.is_cuda(), "expected a CUDA device, got ", device);
    return device.has_index() ? device.index() : cuda::current_device();
  }

 private:
  DeviceIndex original_, current_;
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) { if (device) guard_.emplace(*device); }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> device) { if (device) guard_.emplace(*device); }
  void set_device(Device device) { guard_.emplace(device); }
  void set_index(DeviceIndex device) { guard_.emplace(device); }
  void reset() { guard_.reset(); }

 private:
  std::optional<CUDAGuard> guard_;
};

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream)
      : device_(stream.device_index()), original_(getCurrentCUDAStream(stream.device_index())) {
    setCurrentCUDAStream(stream);
  }
  ~CUDAStreamGuard() { setCurrentCUDAStream(original_); }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;

 private:
  CUDAGuard device_;
  CUDAStream original_;
};

cudaDeviceProp* getCurrentDeviceProperties();
cudaDeviceProp* getDeviceProperties(DeviceIndex device);
cublasContext* getCurrentCUDABlasHandle();
inline int warp_size() { return getCurrentDeviceProperties()->warpSize; }

namespace detail {
void check(int error, const char* file, const char* function, unsigned line, bool launch);
void check_blas(int status, const char* expression);
}  // namespace detail

}  // namespace cuda

// Guards of the device-independent kind, for CUDA and CPU devices.
class OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(std::optional<Device> device) { if (device && device->is_cuda()) guard_.emplace(*device); }

 private:
  std::optional<cuda::CUDAGuard> guard_;
};
class DeviceGuard : public OptionalDeviceGuard {
 public:
  explicit DeviceGuard(Device device) : OptionalDeviceGuard(std::optional<Device>(device)) {}
};

}  // namespace kernelwright

#define C10_CUDA_CHECK(expression)                                                                            \
  do {                                                                                                        \
    const cudaError_t kw_error = (expression);                                                                \
    if (C10_UNLIKELY(kw_error != cudaSuccess))                                                                \
      ::kernelwright::cuda::detail::check(static_cast<int>(kw_error), __FILE__, __func__, __LINE__, false);   \
  } while (0)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() \
  ::kernelwright::cuda::detail::check(static_cast<int>(cudaGetLastError()), __FILE__, __func__, __LINE__, true)
#define TORCH_CUDABLAS_CHECK(expression) \
  ::kernelwright::cuda::detail::check_blas(static_cast<int>(expression), #expression)
#define TORCH_DSA_KERNEL_LAUNCH(...) KW_UNSUPPORTED_torch_device_assertions

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                         \
  int64_t _i_n_d_e_x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;     \
  for (index_type i = _i_n_d_e_x; _i_n_d_e_x < (n); _i_n_d_e_x += blockDim.x * gridDim.x, i = _i_n_d_e_x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

#ifdef __CUDACC__
template <typename T>
__device__ __forceinline__ T WARP_SHFL(T value, int lane, int width = warpSize, unsigned mask = 0xffffffff) {
  return __shfl_sync(mask, value, lane, width);
}
template <typename T>
__device__ __forceinline__ T WARP_SHFL_XOR(T value, int lanes, int width = warpSize, unsigned mask = 0xffffffff) {
  return __shfl_xor_sync(mask, value, lanes, width);
}
template <typename T>
__device__ __forceinline__ T WARP_SHFL_UP(T value, unsigned delta, int width = warpSize, unsigned mask = 0xffffffff) {
  return __shfl_up_sync(mask, value, delta, width);
}
template <typename T>
__device__ __forceinline__ T WARP_SHFL_DOWN(T value, unsigned delta, int width = warpSize, unsigned mask = 0xffffffff) {
  return __shfl_down_sync(mask, value, delta, width);
}
__device__ __forceinline__ unsigned WARP_BALLOT(int predicate, unsigned mask = 0xffffffff) {
  return __ballot_sync(mask, predicate);
}

template <typename T>
__device__ __forceinline__ T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
__device__ __forceinline__ int64_t gpuAtomicAdd(int64_t* address, int64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(address), static_cast<unsigned long long>(value));
}
__device__ __forceinline__ kernelwright::Half gpuAtomicAdd(kernelwright::Half* address, kernelwright::Half value) {
  return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ __forceinline__ kernelwright::BFloat16 gpuAtomicAdd(kernelwright::BFloat16* address, kernelwright::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
#endif
template <typename T>
__device__ __forceinline__ void gpuAtomicAddNoReturn(T* address, T value) { gpuAtomicAdd(address, value); }
#endif

#endif  // KW_CUDA_H
