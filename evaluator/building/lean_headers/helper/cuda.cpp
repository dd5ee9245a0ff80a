// Streams, devices and handles of the CUDA side.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "real.h"

#undef C10_CUDA_CHECK
#undef AT_CUDA_CHECK
#undef C10_CUDA_KERNEL_LAUNCH_CHECK
#undef TORCH_CUDABLAS_CHECK
#undef TORCH_DSA_KERNEL_LAUNCH
#undef CUDA_KERNEL_LOOP
#undef CUDA_KERNEL_LOOP_TYPE
#include "kernelwright/cuda.h"

namespace kernelwright::cuda {

DeviceIndex device_count() { return c10::cuda::device_count(); }
DeviceIndex current_device() { return c10::cuda::current_device(); }
void set_device(DeviceIndex device) { c10::cuda::set_device(device); }
DeviceIndex exchange_device(DeviceIndex device) { return c10::cuda::ExchangeDevice(device); }
void device_synchronize() { c10::cuda::device_synchronize(); }

static CUDAStream lean(c10::cuda::CUDAStream stream) { return {stream.stream(), stream.device_index(), stream.id()}; }
static c10::cuda::CUDAStream real(const CUDAStream& stream) {
  return c10::cuda::CUDAStream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, stream.device_index()), stream.id()));
}
bool CUDAStream::query() const { return real(*this).query(); }
void CUDAStream::synchronize() const { real(*this).synchronize(); }
CUDAStream getCurrentCUDAStream(DeviceIndex device) { return lean(c10::cuda::getCurrentCUDAStream(device)); }
CUDAStream getDefaultCUDAStream(DeviceIndex device) { return lean(c10::cuda::getDefaultCUDAStream(device)); }
CUDAStream getStreamFromPool(bool high_priority, DeviceIndex device) {
  return lean(c10::cuda::getStreamFromPool(high_priority, device));
}
void setCurrentCUDAStream(CUDAStream stream) { c10::cuda::setCurrentCUDAStream(real(stream)); }

cudaDeviceProp* getCurrentDeviceProperties() { return at::cuda::getCurrentDeviceProperties(); }
cudaDeviceProp* getDeviceProperties(DeviceIndex device) { return at::cuda::getDeviceProperties(device); }
cublasContext* getCurrentCUDABlasHandle() { return at::cuda::getCurrentCUDABlasHandle(); }

namespace detail {
void check(int error, const char* file, const char* function, unsigned line, bool launch) {
  c10::cuda::c10_cuda_check_implementation(error, file, function, line, launch);
}
void check_blas(int status, const char* expression) {
  TORCH_CHECK(status == 0, "CUDA error: ", at::cuda::blas::_cublasGetErrorEnum(static_cast<cublasStatus_t>(status)),
              " when calling `", expression, "`");
}
}  // namespace detail

}  // namespace kernelwright::cuda
