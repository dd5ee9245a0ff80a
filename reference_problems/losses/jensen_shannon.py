"""Jensen-Shannon divergence between a student and a teacher, and its gradient for the student.

Both normalisers come from one pass, divergence and gradient from a second; plain operators store both
log-softmaxes and more.
"""

import torch
from torch import nn

TOKENS = 2048
VOCABULARY = 65536
MIX = 0.5

SHAPES = {"small": {"TOKENS": 96, "VOCABULARY": 2048}, "odd": {"TOKENS": 83, "VOCABULARY": 1511}}


class Model(nn.Module):
    def __init__(self, mix: float):
        super().__init__()
        self.mix = mix

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Divergence [tokens] in float32, and its gradient [tokens, vocabulary] in the student's type."""
        own, other = torch.log_softmax(student.float(), dim=-1), torch.log_softmax(teacher.float(), dim=-1)
        middle = torch.log(self.mix * other.exp() + (1 - self.mix) * own.exp())
        towards = (1 - self.mix) * own.exp() * (own - middle)
        loss = towards.sum(dim=-1) + self.mix * (other.exp() * (other - middle)).sum(dim=-1)
        gradient = towards - own.exp() * towards.sum(dim=-1, keepdim=True)
        return loss, (1e3 * gradient).to(student.dtype)


def get_inputs():
    student, teacher = 2.0 * torch.randn(2, TOKENS, VOCABULARY)
    return [student.bfloat16(), (0.5 * student + teacher).bfloat16()]


def get_init_inputs():
    return [MIX]
