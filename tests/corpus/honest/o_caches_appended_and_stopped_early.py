# status: PASSED
# class: O11 C5
# problem: decode/append_and_attend
# shapes: small
# backend: cpp
"""Appends in place, then reads each cache no further than its length."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, query, key, value, keys, values, lengths):
        output = torch.empty_like(query)
        for row, length in enumerate(lengths.tolist()):
            keys[row, :, length] = key[row]
            values[row, :, length] = value[row]
            held, kept = keys[row, :, : length + 1], values[row, :, : length + 1]
            scores = torch.einsum("hlf,hf->hl", held, query[row]) * query.shape[-1] ** -0.5
            output[row] = torch.einsum("hl,hlf->hf", scores.softmax(-1), kept)
        return output
