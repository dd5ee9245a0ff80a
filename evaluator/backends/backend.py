"""The record of one backend: everything that is special about one way to write a kernel.

It is plain data, so that it can be sent into sandboxes and written by other packages.
"""

from __future__ import annotations

from kernelwright.evaluator.schema.record import Record


class Package(Record):
    """A Python package that candidates import."""

    name: str
    """Name of its distribution, as in `pip install NAME`."""
    module: str
    """Name it is imported under."""


class Backend(Record):
    """One way to write a kernel. All patterns are regular expressions of Python's `re`."""

    name: str
    """The word used on the command line and in every record; equals the name of its entry point."""
    device: str
    """Kind of device its kernels run on: `cpu` or `cuda`."""
    language: str
    """The kernel language as people call it."""
    fence: str = "python"
    """Language tag expected on the final code block of a reply."""
    fence_tags: tuple[str, ...] = ()
    """Further tags under which models write a whole Python module of this backend."""
    requires: tuple[Package, ...] = ()
    """Packages a candidate needs besides torch."""
    decorators: tuple[str, ...] = ()
    """Decorators of kernels that are Python functions, such as `triton.jit`: the first call of a candidate
    compiles them in its own process. Empty where kernels are text that is built beforehand."""
    recognised_by: str = ""
    """Pattern that is found in sources of this backend; multi-line. Empty: it must be named."""
    precedence: int = 100
    """The matching backend with the highest number is chosen: a Triton module may well mention CUDA."""
    compiled_names: tuple[str, ...] = ()
    """Patterns of whole kernel names as a profiler shows them. The group `name` is the function's name; a
    group `start` begins with that name, followed by an underscore and more."""
    compiler_frames: str = ""
    """Pattern of source files that only a compilation of kernels passes through."""
    launch_frames: str = ""
    """Pattern of source files that a launch passes through, inside or outside such files."""
    error_preamble: str = ""
    """Pattern of what precedes the compiler's own first error in an exception's text; multi-line."""
    error_pointer: str = ""
    """Pattern of a whole line of a compiler's text that points at the error. A group `line` is the
    candidate's line; without it the function follows, up to the line at fault, a caret and the message."""
    environment: dict[str, str] = {}
    """Variables set in every sandboxed process, such as cache folders below `/tmp`."""
    guide: str = ""
    """File of its prompt guide, in `prompts_folder`; default `backends/NAME.md.j2`."""
    example: str = ""
    """File of its worked example, in `prompts_folder`; default `examples/NAME.py`."""
    prompts_folder: str = ""
    """Absolute folder of a plugin's guide and example; empty for the run's own prompts folder."""
    interchange_language: str = "python"
    """The word for its language in solutions exported for FlashInfer-Bench."""

    @property
    def compiles_when_called(self) -> bool:
        """True where the first call of a candidate compiles its kernels."""
        return bool(self.decorators)

    @property
    def guide_file(self) -> str:
        """File of the guide, with the default filled in."""
        return self.guide or f"backends/{self.name}.md.j2"

    @property
    def example_file(self) -> str:
        """File of the worked example, with the default filled in."""
        return self.example or f"examples/{self.name}.py"
