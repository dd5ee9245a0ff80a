"""TileLang: Python functions compiled to CUDA when they are first called."""

from kernelwright.evaluator.backends.backend import Backend, Package

BACKEND = Backend(
    name="tilelang",
    device="cuda",
    language="TileLang",
    fence_tags=("tilelang",),
    requires=(Package(name="tilelang", module="tilelang"),),
    decorators=("T.prim_func", "tilelang.jit"),
    recognised_by=r"^[ \t]*(?:import|from)\s+tilelang\b",
    precedence=40,
    compiled_names=(r"(?P<name>\w+?)_kernel(?:_\d+)?",),
    compiler_frames=r"/tilelang/(?:engine|language|transform|backend|cache)/",
    launch_frames=r"/tilelang/jit/adapter/(?!libgen|wrapper)",
    # The end of the CUDA it generated, and the warnings before nvcc's first error.
    error_preamble=r"\nCompilation error:\n(?s:.*?)^(?=\S+\(\d+\): error: )",
    error_pointer=r"\s*-->\s+\S*candidate\.py:(?P<line>\d+)(?::\d+)?",
    environment={"TILELANG_CACHE_DIR": "/tmp/tilelang", "TILELANG_PRINT_ON_COMPILATION": "0"},
)
