"""Triton: Python functions compiled when they are first launched."""

from kernelwright.evaluator.backends.backend import Backend, Package

BACKEND = Backend(
    name="triton",
    device="cuda",
    language="Triton",
    fence_tags=("triton",),
    requires=(Package(name="triton", module="triton"),),
    decorators=("triton.jit",),
    recognised_by=r"^[ \t]*(?:import|from)\s+triton\b",
    precedence=20,
    # Older versions append a signature, as in `add_0d1d2c`.
    compiled_names=(r"(?P<name>\w+)_\d[0-9a-z]*",),
    compiler_frames=r"/triton/(?:compiler/|backends/\w+/compiler\.py)",
    launch_frames=r"/triton/backends/\w+/driver\.py",
    error_pointer=r"(?:\w+: )?at \d+:\d+:",
    environment={"TRITON_CACHE_DIR": "/tmp/triton"},
    interchange_language="triton",
)
