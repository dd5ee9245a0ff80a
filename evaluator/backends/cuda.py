"""CUDA C++ built by `torch.utils.cpp_extension.load_inline`."""

from kernelwright.evaluator.backends.backend import Backend

BACKEND = Backend(
    name="cuda",
    device="cuda",
    language="CUDA C++",
    recognised_by=r"\bcuda_sources\b|__global__\b|\bCUDAExtension\b|['\"][\w./-]+\.cu['\"]",
    precedence=10,
)
