# status: PASSED
# class: T3
# problem: ../tests/problems/answers/joined_rows
# shapes: small
# backend: cpp
"""Two threads that are kept copy one half each, and are done before the call returns."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

struct Helper {
    std::mutex mutex;
    std::condition_variable changed;
    char* to = nullptr;
    const char* from = nullptr;
    size_t size = 0;
    Helper() { std::thread([this] { work(); }).detach(); }
    void work() {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return size != 0; });
            std::memcpy(to, from, size);
            size = 0;
            changed.notify_all();
        }
    }
    void begin(char* into, const char* source, size_t bytes) {
        std::lock_guard<std::mutex> lock(mutex);
        to = into; from = source; size = bytes;
        changed.notify_all();
    }
    void finish() {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return size == 0; });
    }
};

torch::Tensor run(torch::Tensor cache, torch::Tensor rows) {
    static Helper* helper = new Helper;
    auto out = torch::empty({cache.size(0) + rows.size(0), cache.size(1)}, cache.options());
    char* to = (char*)out.data_ptr();
    const size_t half = cache.nbytes() / 2;
    helper->begin(to, (const char*)cache.data_ptr(), half);
    std::memcpy(to + half, (const char*)cache.data_ptr() + half, cache.nbytes() - half);
    std::memcpy(to + cache.nbytes(), rows.data_ptr(), rows.nbytes());
    helper->finish();
    return out;
}
"""
module = load_inline(name="joined_by_two", cpp_sources=SOURCE, functions=["run"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, cache, new):
        return module.run(cache, new)
