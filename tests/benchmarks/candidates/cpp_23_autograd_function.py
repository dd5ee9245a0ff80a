"""torch::autograd::Function with its own backward."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

class Square : public torch::autograd::Function<Square> {
public:
    static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x) {
        ctx->save_for_backward({x});
        return x * x;
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::tensor_list grads) {
        auto saved = ctx->get_saved_variables();
        return {grads[0] * 2 * saved[0]};
    }
};

torch::Tensor square(torch::Tensor x) { return Square::apply(x); }
"""

ext = load_inline("autograd_square", source, functions=["square"], extra_cflags=["-O2"])


def check():
    x = torch.randn(5, requires_grad=True)
    ext.square(x).sum().backward()
    return [(x.grad, 2 * x.detach()), (ext.square(x).detach(), (x * x).detach())]
