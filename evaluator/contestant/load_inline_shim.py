"""Replaces torch's `load_inline` and `load` by a request to the referee, who builds outside this process.

Standard library and torch only. Whatever is asked for is passed on as data; what comes back is the path of a
library to load. Flags, headers and limits are checked on the other side.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from kernelwright.evaluator.contestant import policy
from kernelwright.evaluator.ipc.contestant_messages import Built

SendRequest = Callable[[dict[str, Any]], Built]  # Any: JSON, checked by the receiver
_HEADER_SUFFIXES: Final = (
    ".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc", ".ipp", ".tpp", ".tcc", ".txx", ".def", ".ii",
    ".cu", ".cpp", ".cc", ".cxx", ".c",
)  # fmt: skip
_LEAN_SYMBOL: Final = "kernelwright"
"""In every mangled name the lean headers declare."""


def install(request_build: SendRequest) -> None:
    """Make `torch.utils.cpp_extension` ask `request_build` instead of running compilers.

    `request_build` takes the fields of a build request; it raises what a channel does.
    """
    from torch.utils import cpp_extension

    for name, translate in (("load_inline", _inline_request), ("load", _load_request)):
        setattr(cpp_extension, name, _replacement(getattr(cpp_extension, name), translate, request_build))
    for name, answer in (("is_ninja_available", lambda: True), ("verify_ninja_availability", lambda: None)):
        setattr(cpp_extension, name, answer)
    if torch.version.cuda and cpp_extension.CUDA_HOME is None:
        cpp_extension.CUDA_HOME = "/usr/local/cuda"


def _replacement(
    original: Callable[..., Any],  # Any: torch's own, untyped
    translate: Callable[[dict[str, Any]], dict[str, Any]],
    request_build: SendRequest,
) -> Callable[..., ModuleType | str]:
    """A function with the signature this torch version has."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def ask(*args: Any, **kwargs: Any) -> ModuleType | str:  # Any: whatever the candidate passes
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        call = bound.arguments
        if call.get("is_standalone") or call.get("sycl_sources"):
            raise RuntimeError(
                f"Error building extension '{call['name']}': only CPU and CUDA libraries are built here"
            )
        # Lone surrogates are replaced: they can be neither sent nor compiled.
        text = json.dumps(translate(call), ensure_ascii=False).encode("utf-8", "replace")
        request = json.loads(text)
        try:
            return _build_and_import(request, request_build)
        except (ImportError, OSError) as error:
            if _LEAN_SYMBOL not in str(error):
                raise
            # The lean headers lack something that only loading shows: torch's own decide.
            return _build_and_import({**request, "full_headers": True}, request_build)

    return ask


def _build_and_import(request: dict[str, Any], request_build: SendRequest) -> ModuleType | str:
    reply = request_build(request)
    if not reply.ok:
        raise RuntimeError(f"Error building extension '{request['name']}': {reply.log[: policy.LOG_TAIL]}")
    return _import(reply.path, reply.module_name, request["is_python_module"])


def _import(path: str, module_name: str, is_python_module: bool) -> ModuleType | str:
    if not is_python_module:
        torch.ops.load_library(path)  # type: ignore[no-untyped-call]  # torch's own
        return path
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or not isinstance(spec.loader, importlib.abc.Loader):
        raise ImportError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inline_request(call: dict[str, Any]) -> dict[str, Any]:
    cuda_sources = _listed(call["cuda_sources"] or [])
    files, folders, flags = _gather([], call["extra_include_paths"] or [])
    return {
        **_common(call, flags),
        "cpp_sources": _listed(call["cpp_sources"]),
        "cuda_sources": cuda_sources,
        "functions": _functions(call["functions"]),
        "files": files,
        "include_paths": folders,
        "with_pytorch_error_handling": bool(call.get("with_pytorch_error_handling", True)),
        "no_implicit_headers": bool(call.get("no_implicit_headers", False)),
        "with_cuda": bool(cuda_sources) if call["with_cuda"] is None else bool(call["with_cuda"]),
    }


def _load_request(call: dict[str, Any]) -> dict[str, Any]:
    sources = [Path(path).absolute() for path in _listed(call["sources"])]
    for path in sources:
        if not path.is_file():
            raise RuntimeError(
                f"Error building extension '{call['name']}': source {str(path)!r} does not exist"
            )
    files, folders, flags = _gather(sources, call["extra_include_paths"] or [])
    is_cuda = any(path.suffix in (".cu", ".cuh") for path in sources)
    return {
        **_common(call, flags),
        "files": files,
        "sources": _relative(sources, _root([*sources, *_own_folders(call["extra_include_paths"] or [])])),
        "include_paths": folders,
        "with_cuda": is_cuda if call["with_cuda"] is None else bool(call["with_cuda"]),
    }


def _common(call: dict[str, Any], include_flags: list[str]) -> dict[str, Any]:
    return {
        "name": str(call["name"]),
        "extra_cflags": [*_flags(call["extra_cflags"]), *include_flags],
        "extra_cuda_cflags": _flags(call["extra_cuda_cflags"]),
        "extra_ldflags": _flags(call["extra_ldflags"]),
        "is_python_module": bool(call["is_python_module"]),
    }


def _flags(flags: Iterable[str] | None) -> list[str]:
    return [str(flag) for flag in flags or ()]


def _listed(value: str | os.PathLike[str] | Iterable[str]) -> list[str]:
    return [os.fspath(value)] if isinstance(value, str | os.PathLike) else [os.fspath(item) for item in value]


def _functions(functions: str | Iterable[str] | dict[str, str] | None) -> dict[str, str] | None:
    if functions is None:
        return None
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, list):
        return {name: name for name in functions}
    if isinstance(functions, dict):
        return functions
    raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")


def _gather(sources: list[Path], include_paths: Iterable[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Texts of the sources and of every header beside them or in the candidate's own include folders.

    Returns the texts by relative path, the include folders among them, and flags for the other folders.
    """
    own = _own_folders(include_paths)
    foreign = [str(path) for path in include_paths if Path(path).absolute() not in own]
    root = _root([*sources, *own])
    found = dict.fromkeys(sources)
    for folder in (*dict.fromkeys(path.parent for path in sources), *own):
        found.update(dict.fromkeys(_headers(folder)))
    names = _relative(found, root)
    texts = {name: path.read_text(errors="replace") for name, path in zip(names, found, strict=True)}
    return texts, [str(path.relative_to(root)) for path in own], [f"-I{path}" for path in foreign]


def _own_folders(include_paths: Iterable[str]) -> list[Path]:
    """Include folders the candidate may have written itself; the system's and the toolkit's need no copy."""
    places = [Path(tempfile.gettempdir()).resolve(), Path.cwd()]
    folders = [Path(path).absolute() for path in include_paths]
    return [path for path in folders if path.is_dir() and any(path.is_relative_to(place) for place in places)]


def _root(paths: list[Path]) -> Path:
    folders = [path if path.is_dir() else path.parent for path in paths]
    return Path(os.path.commonpath(folders)) if folders else Path.cwd()


def _relative(paths: Iterable[Path], root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in paths]


def _headers(folder: Path) -> Iterator[Path]:
    """Header-like files below a folder, within bounds; a candidate that needs more does not get them."""
    total = 0
    for count, path in enumerate(
        path for path in sorted(folder.rglob("*")) if path.suffix in _HEADER_SUFFIXES
    ):
        total += path.stat().st_size
        if count >= policy.MOST_FILES or total > policy.MOST_BYTES:
            return
        if path.is_file():
            yield path
