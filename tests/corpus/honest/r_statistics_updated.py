# status: PASSED
# class: D5 O11
# problem: level2/04_conv_batchnorm_relu_train
# shapes: small
# backend: cpp
"""Training mode: its own batch statistics, running averages updated as the reference does."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outside)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x):
        y = self.conv(x)
        variance, mean = torch.var_mean(y, dim=(0, 2, 3), correction=0)
        with torch.no_grad():
            count = y.numel() / y.shape[1]
            self.norm.running_mean.lerp_(mean, 0.1)
            self.norm.running_var.lerp_(variance * count / (count - 1), 0.1)
            self.norm.num_batches_tracked += 1
        scale = self.norm.weight * torch.rsqrt(variance + self.norm.eps)
        shift = self.norm.bias - mean * scale
        return torch.relu(y * scale[:, None, None] + shift[:, None, None])
