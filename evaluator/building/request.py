"""What may be built and what came of it: the contract between pipeline, cache and build sandbox."""

from __future__ import annotations

from pathlib import Path

from evaluator.evaluation import Build
from evaluator.record import Record


class BuildRequest(Record):
    """A `load_inline` or `load` call of a candidate, as data; everything in it is hostile."""

    name: str
    cpp_sources: tuple[str, ...] = ()
    cuda_sources: tuple[str, ...] = ()
    functions: dict[str, str] | None = None
    """Function names to bind, with their docstrings; None when the sources bind themselves."""
    files: dict[str, str] = {}
    """For `load`: relative path to text, sources and the headers beside them."""
    sources: tuple[str, ...] = ()
    """For `load`: which of `files` are compiled, in order."""
    include_paths: tuple[str, ...] = ()
    """Folders of `files` to search for headers."""
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    is_python_module: bool = True
    with_pytorch_error_handling: bool = True
    no_implicit_headers: bool = False
    with_cuda: bool = False
    real_headers: bool = False
    """Use torch's own headers at once: asked when a lean library would not load or may have answered wrongly
    by our fault, and before a kernel is kept."""


class BuildOutcome(Record):
    """What a build gave."""

    build: Build
    shared_object: Path | None = None
    """The published `.so` in the cache, present when `build.ok`."""
    module_name: str = ""
    """The name its `PyInit_` symbol carries; the loader must use it."""
    sources: dict[str, str] = {}
    """Texts that were compiled, by file name, so that a reported line can be shown."""
    doubtful: bool = False
    """Whether a wrong answer may be the fault of the headers it was built with: torch's own must decide."""
    waited_s: float = 0.0
    """Seconds it was kept waiting: for a place, another's build, or what all builds need."""
