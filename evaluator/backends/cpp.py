"""C++ on the CPU, built by `torch.utils.cpp_extension.load_inline`."""

from kernelwright.evaluator.backends.backend import Backend

BACKEND = Backend(
    name="cpp",
    device="cpu",
    language="C++ on the CPU",
    recognised_by=r"\bcpp_sources\b|['\"][\w./-]+\.(?:cpp|cc)['\"]",
    precedence=0,
)
