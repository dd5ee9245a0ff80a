# status: PASSED
# class: T2
# problem: level1/09_softmax
# shapes: small
# backend: triton
"""As many programs as multiprocessors take rows from a counter."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def worker(x, out, following, rows, columns, BLOCK: tl.constexpr):
    row = tl.atomic_add(following, 1)
    places = tl.arange(0, BLOCK)
    while row < rows:
        start = row.to(tl.int64) * columns
        values = tl.load(x + start + places, mask=places < columns, other=-float("inf"))
        values = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + start + places, values / tl.sum(values, axis=0), mask=places < columns)
        row = tl.atomic_add(following, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out, following = torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)
        programs = torch.cuda.get_device_properties(x.device).multi_processor_count
        worker[(2 * programs,)](x, out, following, rows, columns, BLOCK=triton.next_power_of_2(columns))
        return out
