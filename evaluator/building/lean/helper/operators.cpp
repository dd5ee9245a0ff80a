// Every operator the lean headers declare, handed on to ATen.
#include "real.h"

namespace kernelwright {
#include "definitions.inc"
}  // namespace kernelwright
