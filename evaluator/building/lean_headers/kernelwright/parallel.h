// at::parallel_for. As in torch it is parallel only where the candidate is compiled with OpenMP.
#ifndef KW_PARALLEL_H
#define KW_PARALLEL_H

#include <atomic>
#include <exception>

#include "checks.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace kernelwright {

void set_num_threads(int threads);
int get_num_threads();
int get_thread_num();
bool in_parallel_region();
inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }

namespace internal {
void lazy_init_num_threads();
void set_thread_num(int id);
bool enter_parallel(bool state);
void leave_parallel(bool previous);
struct ThreadIdGuard {
  explicit ThreadIdGuard(int id) : old(get_thread_num()) { set_thread_num(id); }
  ~ThreadIdGuard() { set_thread_num(old); }
  int old;
};
struct ParallelGuard {
  explicit ParallelGuard(bool state) : old(enter_parallel(state)) {}
  ~ParallelGuard() { leave_parallel(old); }
  bool old;
};

#ifdef _OPENMP
template <typename F>
void invoke_parallel(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr first;
#pragma omp parallel
  {
    int64_t threads = omp_get_num_threads();
    if (grain_size > 0) threads = std::min(threads, divup(end - begin, grain_size));
    const int64_t id = omp_get_thread_num();
    const int64_t chunk = divup(end - begin, threads);
    const int64_t start = begin + id * chunk;
    if (start < end) {
      try {
        ThreadIdGuard thread(static_cast<int>(id));
        f(start, std::min(end, start + chunk));
      } catch (...) {
        if (!failed.test_and_set()) first = std::current_exception();
      }
    }
  }
  if (first) std::rethrow_exception(first);
}
#endif
}  // namespace internal

template <class F>
void parallel_for(const int64_t begin, const int64_t end, const int64_t grain_size, const F& f) {
  if (begin >= end) return;
#ifdef _OPENMP
  internal::lazy_init_num_threads();
  const int64_t count = end - begin;
  if (count > grain_size && count > 1 && !in_parallel_region() && get_num_threads() > 1) {
    internal::invoke_parallel(begin, end, grain_size, [&](int64_t from, int64_t to) {
      internal::ParallelGuard guard(true);
      f(from, to);
    });
    return;
  }
#endif
  internal::ThreadIdGuard thread(0);
  internal::ParallelGuard guard(true);
  f(begin, end);
}

template <class scalar_t, class F, class SF>
scalar_t parallel_reduce(const int64_t begin, const int64_t end, const int64_t grain_size, const scalar_t ident,
                         const F& f, const SF& sf) {
  if (begin >= end) return ident;
#ifdef _OPENMP
  internal::lazy_init_num_threads();
  const int threads = get_num_threads();
  if (end - begin > grain_size && !in_parallel_region() && threads > 1) {
    std::vector<scalar_t> partial(threads, ident);
    internal::invoke_parallel(begin, end, grain_size, [&](int64_t from, int64_t to) {
      const int id = get_thread_num();
      internal::ParallelGuard guard(true);
      partial[id] = f(from, to, ident);
    });
    scalar_t result = ident;
    for (const auto& part : partial) result = sf(result, part);
    return result;
  }
#endif
  internal::ThreadIdGuard thread(0);
  internal::ParallelGuard guard(true);
  return f(begin, end, ident);
}

}  // namespace kernelwright

#endif  // KW_PARALLEL_H
