import tilelang
import tilelang.language as T
import torch
from torch import nn

THREADS = 256
HELD = 32


@tilelang.jit(out_idx=[-1])
def smoothed_losses(tokens, vocabulary, smoothing, penalty, ignored, vector, threads=THREADS, held=HELD):
    steps = -(-vocabulary // (threads * held))
    even = vocabulary % (threads * held) == 0
    lowest = -3.0e38

    @T.prim_func
    def losses(
        logits: T.Tensor((tokens, vocabulary), "bfloat16"),
        labels: T.Tensor((tokens,), "int64"),
        out: T.Tensor((tokens,), "float32"),
    ):
        with T.Kernel(tokens, threads=threads) as row:
            raw = T.alloc_local((held,), "bfloat16")
            # Of each thread: the maximum so far, the sum of exponentials below it, the plain sum.
            most = T.alloc_fragment((threads,), "float32")
            raised = T.alloc_fragment((threads,), "float32")
            plain = T.alloc_fragment((threads,), "float32")
            fresh = T.alloc_local((1,), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            whole = T.alloc_fragment((1,), "float32")
            if labels[row] == ignored:
                for t in T.Parallel(threads):
                    if t == 0:
                        out[row] = 0.0
            else:
                T.fill(most, lowest)
                T.clear(raised)
                T.clear(plain)
                for step in T.serial(steps):
                    for t in T.Parallel(threads):
                        for u in T.unroll(held // vector):
                            if even:
                                for v in T.vectorized(vector):
                                    raw[u * vector + v] = logits[
                                        row, step * (threads * held) + u * (threads * vector) + t * vector + v
                                    ]
                            else:
                                if step * (threads * held) + u * (threads * vector) + t * vector < vocabulary:
                                    for v in T.vectorized(vector):
                                        raw[u * vector + v] = logits[
                                            row, step * (threads * held) + u * (threads * vector) + t * vector + v
                                        ]
                                else:
                                    for v in T.vectorized(vector):
                                        raw[u * vector + v] = T.cast(-T.infinity("float32"), "bfloat16")
                        fresh[0] = most[t]
                        for j in T.unroll(held):
                            fresh[0] = T.max(fresh[0], T.cast(raw[j], "float32"))
                        raised[t] = raised[t] * T.__exp(most[t] - fresh[0])
                        most[t] = fresh[0]
                        for j in T.unroll(held):
                            raised[t] += T.__exp(T.cast(raw[j], "float32") - most[t])
                            if even:
                                plain[t] += T.cast(raw[j], "float32")
                            else:
                                plain[t] += T.if_then_else(
                                    step * (threads * held) + (j // vector) * (threads * vector) + t * vector
                                    < vocabulary,
                                    T.cast(raw[j], "float32"),
                                    0.0,
                                )
                T.reduce_max(most, top, dim=0, clear=True)
                for t in T.Parallel(threads):
                    raised[t] = raised[t] * T.__exp(most[t] - top[0])
                T.reduce_sum(raised, total, dim=0)
                T.reduce_sum(plain, whole, dim=0)
                for t in T.Parallel(threads):
                    if t == 0:
                        fresh[0] = top[0] + T.log(total[0])
                        out[row] = (
                            (1.0 - smoothing) * (fresh[0] - T.cast(logits[row, T.max(labels[row], 0)], "float32"))
                            + smoothing * (fresh[0] - whole[0] / T.cast(vocabulary, "float32"))
                            + penalty * fresh[0] * fresh[0]
                        )

    return losses


class ModelNew(nn.Module):
    def __init__(self, smoothing: float, penalty: float):
        super().__init__()
        self.smoothing, self.penalty = smoothing, penalty
        self.kernels = {}

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        tokens, vocabulary = logits.shape
        key = (tokens, vocabulary)
        if key not in self.kernels:
            vector = 8 if vocabulary % 8 == 0 else 1
            self.kernels[key] = smoothed_losses(
                tokens, vocabulary, float(self.smoothing), float(self.penalty), -100, vector
            )
        return self.kernels[key](logits.contiguous(), labels.contiguous())
