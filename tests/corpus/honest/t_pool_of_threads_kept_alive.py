# status: PASSED
# class: T3 T4
# problem: level1/22_gelu
# shapes: odd
# backend: cpp
"""Threads that live as long as the process and are waited for in every call."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
struct Pool {
    std::mutex guard;
    std::condition_variable wake, done;
    const float* in = nullptr;
    float* out = nullptr;
    long count = 0, round = 0;
    int left = 0;
    std::vector<std::thread> threads;
    explicit Pool(int number) {
        for (int k = 0; k < number; ++k) threads.emplace_back([this, k, number] {
            long seen = 0;
            for (;;) {
                std::unique_lock<std::mutex> lock(guard);
                wake.wait(lock, [&] { return round != seen; });
                seen = round;
                const float* x = in;
                float* y = out;
                const long n = count;
                lock.unlock();
                for (long i = n * k / number; i < n * (k + 1) / number; ++i)
                    y[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678118654752f));
                lock.lock();
                if (--left == 0) done.notify_all();
            }
        });
    }
    void run(const float* x, float* y, long n) {
        std::unique_lock<std::mutex> lock(guard);
        in = x; out = y; count = n; left = (int)threads.size(); ++round;
        wake.notify_all();
        done.wait(lock, [&] { return left == 0; });
    }
};
torch::Tensor run(torch::Tensor x) {
    static Pool* pool = new Pool(2);
    auto out = torch::empty_like(x);
    pool->run(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(name="pool", cpp_sources=SOURCE, functions=["run"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
