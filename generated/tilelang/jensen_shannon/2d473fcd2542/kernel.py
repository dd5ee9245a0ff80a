import tilelang
import tilelang.language as T
import torch
from torch import nn

THREADS = 512
PIECES = 2
VECTOR = 8
KEPT = 3
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453


def weight_of_lower(d, mix):
    """The weight, in the mixture, of the lower of two probabilities whose logarithms differ by d."""
    return mix if mix == 0.5 else T.Select(d > 0.0, T.float32(1.0 - mix), T.float32(mix))


def minus_near_log(far, share):
    """-log(1 - share + share * exp(-far)) for small far, by its series."""
    spread = share * (1.0 - share)
    third, fourth = spread * (2.0 * share - 1.0) * (1.0 / 6.0), spread * (1.0 - 6.0 * spread) * (1.0 / 24.0)
    return far * (far * (far * (far * -fourth - third) - spread * 0.5) + share)


@tilelang.jit(out_idx=[-2, -1], pass_configs={"tl.device_compile_flags": ["--ftz=true"]})
def divergence(rows, columns, mix, threads=THREADS, pieces=PIECES):
    step = threads * pieces * VECTOR
    steps = -(-columns // step)
    kept = min(KEPT, steps)

    @T.prim_func
    def kernel(
        student: T.Tensor((rows, columns), "bfloat16"),
        teacher: T.Tensor((rows, columns), "bfloat16"),
        loss: T.Tensor((rows,), "float32"),
        gradient: T.Tensor((rows, columns), "bfloat16"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            T.annotate_min_blocks_per_sm(2)
            kept_a = T.alloc_shared((kept, pieces, threads, VECTOR), "bfloat16")
            kept_b = T.alloc_shared((kept, pieces, threads, VECTOR), "bfloat16")
            a = T.alloc_fragment((pieces, threads, VECTOR), "bfloat16")
            b = T.alloc_fragment((pieces, threads, VECTOR), "bfloat16")
            most_a = T.alloc_fragment((threads,), "float32")
            most_b = T.alloc_fragment((threads,), "float32")
            higher_a = T.alloc_fragment((threads,), "float32")
            higher_b = T.alloc_fragment((threads,), "float32")
            total_a = T.alloc_fragment((threads,), "float32")
            total_b = T.alloc_fragment((threads,), "float32")
            top_a = T.alloc_fragment((1,), "float32")
            top_b = T.alloc_fragment((1,), "float32")
            sum_a = T.alloc_fragment((1,), "float32")
            sum_b = T.alloc_fragment((1,), "float32")

            # First pass: maximum and sum of exponentials of both rows.
            T.fill(most_a, -1e30)
            T.fill(most_b, -1e30)
            T.clear(total_a)
            T.clear(total_b)
            for s in T.serial(steps):
                for p, t, v in T.Parallel(pieces, threads, VECTOR):
                    column = s * step + (p * threads + t) * VECTOR + v
                    a[p, t, v] = T.if_then_else(column < columns, student[row, column], T.cast(-1e30, "bfloat16"))
                for p, t, v in T.Parallel(pieces, threads, VECTOR):
                    column = s * step + (p * threads + t) * VECTOR + v
                    b[p, t, v] = T.if_then_else(column < columns, teacher[row, column], T.cast(-1e30, "bfloat16"))
                if s < kept:
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        kept_a[s, p, t, v] = a[p, t, v]
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        kept_b[s, p, t, v] = b[p, t, v]
                for t in T.Parallel(threads):
                    higher_a[t] = most_a[t]
                    higher_b[t] = most_b[t]
                    for p in T.unroll(pieces):
                        for v in T.unroll(VECTOR):
                            higher_a[t] = T.max(higher_a[t], T.cast(a[p, t, v], "float32"))
                            higher_b[t] = T.max(higher_b[t], T.cast(b[p, t, v], "float32"))
                for t in T.Parallel(threads):
                    total_a[t] = total_a[t] * T.exp2((most_a[t] - higher_a[t]) * LOG2E)
                    total_b[t] = total_b[t] * T.exp2((most_b[t] - higher_b[t]) * LOG2E)
                    most_a[t] = higher_a[t]
                    most_b[t] = higher_b[t]
                    for p in T.unroll(pieces):
                        for v in T.unroll(VECTOR):
                            total_a[t] += T.exp2((T.cast(a[p, t, v], "float32") - higher_a[t]) * LOG2E)
                            total_b[t] += T.exp2((T.cast(b[p, t, v], "float32") - higher_b[t]) * LOG2E)
            T.reduce_max(most_a, top_a, dim=0)
            T.reduce_max(most_b, top_b, dim=0)
            for t in T.Parallel(threads):
                total_a[t] = total_a[t] * T.exp2((most_a[t] - top_a[0]) * LOG2E)
                total_b[t] = total_b[t] * T.exp2((most_b[t] - top_b[0]) * LOG2E)
            T.reduce_sum(total_a, sum_a, dim=0)
            T.reduce_sum(total_b, sum_b, dim=0)
            log_a = T.log(sum_a[0])
            log_b = T.log(sum_b[0])
            between = T.alloc_fragment((1,), "float32")
            shift_a = T.alloc_fragment((1,), "float32")
            shift_b = T.alloc_fragment((1,), "float32")
            between[0] = log_b - log_a
            shift_a[0] = log_a * -LOG2E
            shift_b[0] = log_b * -LOG2E

            # Second pass, backwards: sums of p * (own - middle) and q * (other - middle).
            own_sum = T.alloc_fragment((threads,), "float32")
            other_sum = T.alloc_fragment((threads,), "float32")
            own_total = T.alloc_fragment((1,), "float32")
            other_total = T.alloc_fragment((1,), "float32")
            lower = T.alloc_fragment((threads,), "float32")
            higher = T.alloc_fragment((threads,), "float32")
            series = T.alloc_fragment((threads,), "float32")
            exact = T.alloc_fragment((threads,), "float32")
            above = T.alloc_fragment((threads,), "float32")
            own = T.alloc_fragment((threads,), "float32")
            T.clear(own_sum)
            T.clear(other_sum)
            for back in T.serial(steps):
                s = steps - 1 - back
                if s < kept:
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        a[p, t, v] = kept_a[s, p, t, v]
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        b[p, t, v] = kept_b[s, p, t, v]
                else:
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        column = s * step + (p * threads + t) * VECTOR + v
                        a[p, t, v] = T.if_then_else(
                            column < columns, student[row, column], T.cast(-1e30, "bfloat16")
                        )
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        column = s * step + (p * threads + t) * VECTOR + v
                        b[p, t, v] = T.if_then_else(
                            column < columns, teacher[row, column], T.cast(-1e30, "bfloat16")
                        )
                for t in T.Parallel(threads):
                    for p in T.unroll(pieces):
                        for v in T.unroll(VECTOR):
                            x = T.cast(a[p, t, v], "float32") - top_a[0]
                            y = T.cast(b[p, t, v], "float32") - top_b[0]
                            d = (y - x) - between[0]
                            share = weight_of_lower(d, mix)
                            lower[t] = T.exp2(T.abs(d) * -LOG2E)
                            series[t] = minus_near_log(T.abs(d), share)
                            exact[t] = T.__log2(1.0 - share + share * lower[t]) * -LN2
                            higher[t] = T.exp2(T.max(x * LOG2E + shift_a[0], y * LOG2E + shift_b[0]))
                            lower[t] = lower[t] * higher[t]
                            above[t] = T.Select(T.abs(d) < 0.0625, series[t], exact[t])
                            own_sum[t] += T.Select(d > 0.0, lower[t], higher[t]) * (above[t] - T.max(d, 0.0))
                            other_sum[t] += T.Select(d > 0.0, higher[t], lower[t]) * (above[t] + T.min(d, 0.0))
            T.reduce_sum(own_sum, own_total, dim=0)
            T.reduce_sum(other_sum, other_total, dim=0)
            towards = (1.0 - mix) * own_total[0]
            loss[row] = towards + mix * other_total[0]

            # Third pass: the gradient.
            for s in T.serial(steps):
                if s < kept:
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        a[p, t, v] = kept_a[s, p, t, v]
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        b[p, t, v] = kept_b[s, p, t, v]
                else:
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        column = s * step + (p * threads + t) * VECTOR + v
                        a[p, t, v] = T.if_then_else(
                            column < columns, student[row, column], T.cast(-1e30, "bfloat16")
                        )
                    for p, t, v in T.Parallel(pieces, threads, VECTOR):
                        column = s * step + (p * threads + t) * VECTOR + v
                        b[p, t, v] = T.if_then_else(
                            column < columns, teacher[row, column], T.cast(-1e30, "bfloat16")
                        )
                for t in T.Parallel(threads):
                    for p in T.unroll(pieces):
                        for v in T.unroll(VECTOR):
                            x = T.cast(a[p, t, v], "float32") - top_a[0]
                            y = T.cast(b[p, t, v], "float32") - top_b[0]
                            d = (y - x) - between[0]
                            share = weight_of_lower(d, mix)
                            lower[t] = T.exp2(T.abs(d) * -LOG2E)
                            own[t] = T.__log2(1.0 - share + share * lower[t]) * -LN2 - T.max(d, 0.0)
                            higher[t] = T.exp2(T.max(x * LOG2E + shift_a[0], y * LOG2E + shift_b[0]))
                            lower[t] = lower[t] * higher[t]
                            slope = T.Select(d > 0.0, lower[t], higher[t]) * ((1.0 - mix) * own[t] - towards)
                            a[p, t, v] = T.cast(1e3 * slope, "bfloat16")
                for p, t, v in T.Parallel(pieces, threads, VECTOR):
                    column = s * step + (p * threads + t) * VECTOR + v
                    if column < columns:
                        gradient[row, column] = a[p, t, v]

    return kernel


class ModelNew(nn.Module):
    kernels = {}

    def __init__(self, mix: float):
        super().__init__()
        self.mix = mix

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        key = (*student.shape, float(self.mix))
        if key not in self.kernels:
            self.kernels[key] = divergence(*key)
        loss, gradient = self.kernels[key](student.contiguous(), teacher.contiguous())
        return loss, gradient
