// Torch's namespaces, as far as candidates see them. Nothing is defined inside them, so nothing can clash.
#ifndef KW_NAMES_H
#define KW_NAMES_H

#include "values.h"

namespace kernelwright {
namespace cuda {}
namespace indexing {}
}  // namespace kernelwright
namespace c10 { using namespace kernelwright; }
namespace at { using namespace kernelwright; }
namespace torch { using namespace kernelwright; }
namespace caffe2 { using kernelwright::TypeMeta; }
namespace detail { using kernelwright::detail::scalar_type; }

#endif  // KW_NAMES_H
