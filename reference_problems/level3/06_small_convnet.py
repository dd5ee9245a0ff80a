"""Small image classifier: two convolutions with ReLU and maximum pooling, then one wide linear layer.

Pooling after ReLU lets three steps share one tile; the logits are the output, without a softmax.
"""

import math

import torch
from torch import nn

BATCH = 256
IMAGE_CHANNELS = 3
CHANNELS = [32, 64]
SIZE = 64
CLASSES = 100

SHAPES = {
    "small": {"BATCH": 8, "CHANNELS": [16, 24], "SIZE": 32, "CLASSES": 100},
    "odd": {"BATCH": 5, "CHANNELS": [13, 21], "SIZE": 37, "CLASSES": 89},
}


class Model(nn.Module):
    def __init__(self, image_channels: int, channels: list[int], size: int, classes: int):
        super().__init__()
        self.first = nn.Conv2d(image_channels, channels[0], 3, padding=1)
        self.second = nn.Conv2d(channels[0], channels[1], 3, padding=1)
        self.classifier = nn.Linear(channels[1] * (size // 4) ** 2, classes)
        for layer in (self.first, self.second, self.classifier):
            nn.init.normal_(layer.weight, std=1.0 / math.sqrt(layer.weight[0].numel()))
            nn.init.normal_(layer.bias, std=0.5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.first(images)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.second(x)), 2)
        return self.classifier(x.flatten(1))


def get_inputs():
    return [torch.randn(BATCH, IMAGE_CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [IMAGE_CHANNELS, CHANNELS, SIZE, CLASSES]
