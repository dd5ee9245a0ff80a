# status: PASSED
# speedup: honest
# class: C3 E4
# problem: unusual/nearest_keys
# shapes: small
# backend: cpp
"""Keys whose size proves them too small are left out: many only where elements stand out."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, queries, keys):
        sizes, reach = keys.norm(dim=1), queries.norm(dim=1)
        order = sizes.argsort(descending=True)
        taken = len(keys) // 4
        best = (queries @ keys[order[:taken]].T).amax(-1)
        open_ = (best < reach * sizes[order[taken]]).nonzero().flatten()
        if len(open_):
            rest = (queries[open_] @ keys[order[taken:]].T).amax(-1)
            best[open_] = torch.maximum(best[open_], rest)
        return best
