"""CuTe DSL of NVIDIA's CUTLASS: Python functions compiled when they are first called."""

from kernelwright.evaluator.backends.backend import Backend, Package

BACKEND = Backend(
    name="cute",
    device="cuda",
    language="CuTe DSL",
    fence_tags=("cute",),
    requires=(Package(name="nvidia-cutlass-dsl", module="cutlass"),),
    decorators=("cute.kernel",),
    recognised_by=r"^[ \t]*(?:import|from)\s+cutlass\b",
    precedence=30,
    # A prefix, the function's name and the types of all arguments.
    compiled_names=(r"kernel_cutlass_(?P<start>\w+)",),
    compiler_frames=r"/cutlass/base_dsl/(?:compiler|dsl|ast_preprocessor)\.py",
    launch_frames=r"/cutlass/(?:base_dsl|cutlass_dsl)/\w*jit_executor\.py",
    error_pointer=r"\s*-->\s+\S*candidate\.py:(?P<line>\d+)(?::\d+)?",
)
