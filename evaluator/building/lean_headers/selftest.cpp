// Exercises what the lean headers do by themselves, without the helper; `selftest.py` compares with torch.
#include <torch/extension.h>

std::vector<int64_t> shape(const torch::Tensor& x) {
  std::vector<int64_t> all{x.dim(), x.numel(), x.storage_offset()};
  for (int64_t i = 0; i < x.dim(); ++i) all.push_back(x.size(i));
  for (int64_t stride : x.strides()) all.push_back(stride);
  return all;
}

// Every bit pattern of a 16-bit type as float, and the float back.
template <typename T>
std::tuple<torch::Tensor, torch::Tensor> all_patterns() {
  auto wide = torch::empty({65536}, torch::kFloat32);
  auto back = torch::empty({65536}, torch::kInt32);
  for (int i = 0; i < 65536; ++i) {
    const float value = T(static_cast<unsigned short>(i), T::from_bits());
    wide.data_ptr<float>()[i] = value;
    back.data_ptr<int>()[i] = T(value).x;
  }
  return {wide, back};
}
std::tuple<torch::Tensor, torch::Tensor> halves() { return all_patterns<at::Half>(); }
std::tuple<torch::Tensor, torch::Tensor> bfloats() { return all_patterns<at::BFloat16>(); }

torch::Tensor rounded(torch::Tensor x, torch::Tensor like) {
  auto out = torch::empty(x.sizes(), like.options());
  AT_DISPATCH_REDUCED_FLOATING_TYPES(like.scalar_type(), "rounded", [&] {
    for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<scalar_t>()[i] = x.data_ptr<float>()[i];
  });
  return out;
}

torch::Tensor checked(torch::Tensor x, c10::optional<torch::Tensor> y, std::vector<int64_t> dims, bool keep,
                      const std::string& mode) {
  TORCH_CHECK(x.dim() > 0, "no dimensions in ", x.sizes(), " of ", x.scalar_type());
  if (mode == "sum") return y.has_value() ? (x + *y).sum(dims, keep) : x.sum(dims, keep);
  return x[0] * 2 - torch::ones_like(x[0]);
}
torch::Tensor identity(torch::Tensor x) { return x; }
double total(const std::vector<torch::Tensor>& list) {
  double sum = 0;
  for (const auto& x : list) sum += x.sum().item<double>();
  return sum;
}

// Products and views that many libraries take from torch around a kernel of their own.
std::vector<torch::Tensor> products(torch::Tensor a, torch::Tensor b, torch::Tensor bias) {
  auto across = b.t();
  return {torch::matmul(a, across),
          a.matmul(b.transpose(0, 1)),
          torch::mm(a, across),
          a.mm(across),
          torch::addmm(bias, a, across),
          torch::bmm(a.unsqueeze(0), across.unsqueeze(0)).squeeze(0),
          a.view({-1}),
          a.view({a.size(1), a.size(0)}),
          a.reshape({a.size(1), -1}),
          across.contiguous(),
          torch::transpose(a, 0, 1),
          a.permute({1, 0}).flatten(),
          a.unsqueeze(-1).squeeze(-1)};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("shape", &shape);
  m.def("halves", &halves);
  m.def("bfloats", &bfloats);
  m.def("rounded", torch::wrap_pybind_function(rounded));
  m.def("checked", torch::wrap_pybind_function(checked), "checked", py::arg("x"), py::arg("y") = std::nullopt,
        py::arg("dims") = std::vector<int64_t>{0}, py::arg("keep") = false, py::arg("mode") = "sum");
  m.def("identity", &identity);
  m.def("total", &total);
  m.def("products", &products);
}
