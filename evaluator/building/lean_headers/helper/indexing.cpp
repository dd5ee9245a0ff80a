// Indexing by torch's rules, handed on to ATen.
#include "real.h"

#include <ATen/TensorIndexing.h>

namespace kernelwright {

static std::vector<at::indexing::TensorIndex> real_indices(ArrayRef<indexing::TensorIndex> indices) {
  using Kind = indexing::TensorIndex::Kind;
  std::vector<at::indexing::TensorIndex> list;
  const auto part = [](std::optional<int64_t> x) { return x ? std::optional<c10::SymInt>(*x) : std::nullopt; };
  for (const auto& index : indices) {
    switch (index.kind) {
      case Kind::None: list.emplace_back(std::nullopt); break;
      case Kind::Ellipsis: list.emplace_back(at::indexing::Ellipsis); break;
      case Kind::Integer: list.emplace_back(index.integer); break;
      case Kind::Boolean: list.emplace_back(index.integer != 0); break;
      case Kind::Slice:
        list.emplace_back(at::indexing::Slice(part(index.slice.start), part(index.slice.stop), part(index.slice.step)));
        break;
      case Kind::Tensor: list.emplace_back(real(index.tensor)); break;
    }
  }
  return list;
}
Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices) const {
  return lean(real(*this).index(real_indices(indices)));
}
Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values) {
  real(*this).index_put_(real_indices(indices), real(values));
  return *this;
}
Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value) {
  real(*this).index_put_(real_indices(indices), real(value));
  return *this;
}

}  // namespace kernelwright
