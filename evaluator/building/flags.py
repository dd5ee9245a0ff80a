"""An allow-list of compiler and linker flags, because flags can run programs.

A flag that repeats what the builder does anyway (an architecture, a toolkit folder) is dropped with a note;
an unknown one is refused by name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from kernelwright.evaluator.building import policy
from kernelwright.evaluator.building.build_request import BuildRequest, InvalidRequest


@dataclass(slots=True)
class Flags:
    cxx: list[str] = field(default_factory=list)
    cuda: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    architecture_suffix: str = ""
    """`a` or `f` when the candidate asked for that variant of an architecture, such as `sm_90a`."""
    notes: list[str] = field(default_factory=list)
    """Flags that were ignored, and why; the first ones."""

    def note(self, flag: str, why: str) -> None:
        if len(self.notes) < policy.MAX_FLAG_NOTES:
            self.notes.append(f"{_cut(flag)} ignored{why}")


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.DOTALL)


_F_OPTIONS: Final = (
    r"fast-math|math-errno|unsafe-math-optimizations|associative-math|finite-math-only|"
    r"reciprocal-math|signed-zeros|trapping-math|rounding-math|signaling-nans|cx-limited-range|"
    r"fp-contract|fp-int-builtin-inexact|excess-precision|float-store|single-precision-constant|"
    r"openmp|openmp-simd|PIC|pic|PIE|plt|lto|fat-lto-objects|whole-program|strict-aliasing|"
    r"strict-overflow|wrapv|omit-frame-pointer|visibility|visibility-inlines-hidden|exceptions|"
    r"rtti|early-inlining|partial-inlining|vectorize|slp-vectorize|vect-cost-model|"
    r"simd-cost-model|prefetch-loop-arrays|peel-loops|unroll-loops|unroll-all-loops|split-loops|"
    r"unswitch-loops|modulo-sched|rename-registers|function-sections|data-sections|common|"
    r"permissive|concepts|coroutines|char8_t|signed-char|unsigned-char|short-enums|"
    r"semantic-interposition|stack-protector|builtin|template-depth|threadsafe-statics|"
    r"diagnostics-color|color-diagnostics|max-errors|asm|ident|web|ivopts|"
    r"expensive-optimizations|delete-null-pointer-checks|store-merging|code-hoisting|crossjumping|"
    r"forward-propagate|caller-saves|cf-protection|split-wide-types|inline|inline-functions|"
    r"inline-limit|inline-small-functions|gcse|gcse-lm|gcse-sm|gcse-las|graphite|"
    r"graphite-identity|aligned-new|predictive-commoning|tracer|stack-clash-protection|gnu-unique|"
    r"lax-vector-conversions|selective-scheduling2?|if-conversion2?|jump-tables|tls-model"
)
_HOST: Final = _any_of(
    r"-O(?:[0-3sgz]|fast)?",
    rf"-f(?:no-)?(?:{_F_OPTIONS})(?:=[\w.+:,-]*)?",
    r"-f(?:no-)?(?:ipa|ira|tree|loop|sched|schedule|align|merge|reorder|constexpr|stack-protector|builtin|cse|isolate)"
    r"-[\w-]+(?:=[\w.+:,-]*)?",
    r"-m[a-zA-Z0-9][\w.-]*(?:=[\w.+:,-]*)?|-fopt-info(?:-[a-z-]+)?",
    r"--?std=(?:c|gnu)\+\+\w+",
    r"-W(?![lap],)[\w+-]*(?:=[\w+-]+)?|-w|-pedantic(?:-errors)?|-ansi",
    r"-g(?:gdb|dwarf)?[\d-]*|-pipe|-pthread|-s|--param=[\w=-]+",
)
_DEFINE: Final = _any_of(r"-D[A-Za-z_]\w*(?:\([\w, ]*\))?(?:=.*)?", r"-U[A-Za-z_]\w*")
_PLAIN_DEFINE: Final = _any_of(r"-D[A-Za-z_]\w*(?:=[\w .+:*()<>-]*)?", r"-U[A-Za-z_]\w*")
"""For nvcc, which hands its arguments to a shell."""
_LINK: Final = _any_of(
    r"-l(?:cublas\w*|cudnn\w*|cusparse\w*|curand|cufft\w*|cusolver\w*|cuda|cudart|cudadevrt|nvrtc|nvToolsExt|nvjitlink)",
    r"-l(?:gomp|omp|iomp5|m|mvec|stdc\+\+|atomic|gcc_s|sleef|pthread|dl|rt|c10\w*|torch\w*|tbb\w*|blas|openblas|lapack|mkl_\w+)",
    r"-Wl,(?:-O\d|--as-needed|--no-as-needed|-z,(?:now|relro|defs|noexecstack)|--gc-sections|-s|--strip-all)",
    r"-Wl,(?:--no-undefined|--allow-shlib-undefined|-Bsymbolic(?:-functions)?|--exclude-libs,ALL)",
    r"-shared|-fPIC|-fopenmp|-pthread|-flto(?:=\w+)?|-static-lib(?:stdc\+\+|gcc)|-std=(?:c|gnu)\+\+\w+|-O[0-3s]?|-s|-g\d?|-m[\w.-]+(?:=[\w.+-]+)?|-W(?!l,)[\w-]*",
)
_DEVICE: Final = _any_of(
    r"--?(?:use_fast_math|extra-device-vectorization|restrict|extended-lambda|expt-relaxed-constexpr)",
    r"--?(?:expt-extended-lambda|disable-warnings|res-usage|resource-usage|display-error-number)",
    r"--?(?:ftz|prec-div|prec-sqrt|fmad|rdc|relocatable-device-code|default-stream|dopt)=[\w-]+",
    r"--?(?:diag-suppress|diag-warn|diag-error|Werror)=[\w,-]+",
    r"--?(?:maxrregcount|ftemplate-depth|ftemplate-backtrace-limit)=\d+|--optimize=[0-3]",
    r"-lineinfo|--generate-line-info|-G|--device-debug|-dc|--?std=c\+\+\w+|-O[0-3]|-g|-w|-W[\w-]*",
)
_PTXAS: Final = _any_of(
    r"-v|--verbose|-O[0-4]|-w|--?(?:warn|suppress)-[\w-]+|-d[ls]cm=\w+|--?def-(?:load|store)-cache=\w+",
    r"--?(?:allow-expensive-optimizations|fmad)(?:=\w+)?|--?(?:maxrregcount|opt-level|register-usage-level)=\d+",
    r"--?(?:disable-optimizer-constants|preserve-relocs|Werror)",
)
_CUDAFE: Final = _any_of(r"--?(?:diag_suppress|diag_warning|display_error_number)(?:=[\w,]+)?")

_TAKES_VALUE: Final = _any_of(
    r"-gencode|--generate-code|-arch|--gpu-architecture|-code|--gpu-code",
    r"-Xfatbin|--fatbin-options|--?(?:compress-mode|cudart)|--machine",
    r"-Xptxas|--ptxas-options|-Xcompiler|--compiler-options|-Xcudafe|--cudafe-options",
    r"--?(?:maxrregcount|std|diag-suppress|default-stream|threads|ftz|prec-div|prec-sqrt|fmad|rdc|split-compile)",
    r"-t|--optimize|-isystem|-idirafter|--param|-ftemplate-depth",
)
_GLUED: Final = frozenset(("-D", "-U", "-I", "-L", "-l"))
_ARCHITECTURE: Final = _any_of(r"--?(?:gencode|generate-code|arch|gpu-architecture|code|gpu-code)(?:=.*)?")
_IGNORED: Final = _any_of(
    r"(?:--?threads|-t|--?split-compile)(?:=?\d*)|-Wl,-rpath.*|-v|--verbose|-m64|--machine=64",
    r"(?:-Xfatbin|--fatbin-options)=[\w,-]+|--?(?:compress-mode|cudart)=\w+",
    r"--?(?:allow-unsupported-compiler|src-in-ptx|source-in-ptx|no-compress)",
    r"--?forward-unknown-(?:to-host-compiler|opts|to-host-linker)",
)
"""Flags that change neither a kernel nor its speed, or that the builder decides itself."""
_FOLDER: Final = re.compile(r"(-I|-L|-isystem=?|-idirafter=?)(.*)", re.DOTALL)
_PLAIN_FOLDER: Final = re.compile(r"[\w.+=,~@:% /-]*")


_CHECKS: Final = "-fsanitize=address,undefined"
_UNCHECKED: Final = (
    "-fno-sanitize=vptr,null,alignment,object-size,nonnull-attribute,returns-nonnull-attribute"
)
"""Checks that cost most in torch's headers (13 s of 33); AddressSanitizer reports null by itself."""
_INSTRUMENTATION: Final = (_CHECKS, _UNCHECKED, "-fno-omit-frame-pointer", "-g1", "-O1")
_UNSEEN: Final = (
    "-U__SANITIZE_ADDRESS__",
    *(f"-D{name}=unused" for name in ("no_sanitize(...)", "__no_sanitize__(...)")),
    *(f"-D{name}=unused" for name in ("no_sanitize_address", "__no_sanitize_address__")),
    *(f"-D{name}=unused" for name in ("no_sanitize_undefined", "__no_sanitize_undefined__")),
)
"""Code can neither ask whether it is instrumented nor ask not to be, however its text is put together."""
_STRIPPING: Final = frozenset(("-s", "-Wl,-s", "-Wl,--strip-all"))
"""Flags that remove the line numbers reports need."""


def screen_flags(request: BuildRequest) -> Flags:
    """Sort the flags of a request by compiler; raises InvalidRequest that names a forbidden one."""
    flags = Flags()
    entries = (*request.extra_cflags, *request.extra_cuda_cflags, *request.extra_ldflags)
    if sum(map(len, entries)) > policy.MAX_FLAGS_CHARACTERS:
        longest = _cut(max(entries, key=len))
        raise InvalidRequest(
            f"the flags hold more than {policy.MAX_FLAGS_CHARACTERS} characters; the longest is {longest!r}"
        )
    for flag in _split(request.extra_cflags):
        _sort_flag(flag, flags.cxx, flags, _host_flag)
    for flag in _split(request.extra_cuda_cflags):
        _sort_flag(flag, flags.cuda, flags, _device_flag)
    for flag in _split(request.extra_ldflags):
        _sort_flag(flag, flags.link, flags, _link_flag)
    return flags


def instrumented_flags(flags: Flags) -> Flags:
    """Flags of a build that checks its own memory accesses: AddressSanitizer's and UBSan's come last.

    Device code needs none: compute-sanitizer instruments it when it is loaded.
    """
    return replace(
        flags,
        cxx=[*(flag for flag in flags.cxx if flag not in _STRIPPING), *_INSTRUMENTATION, *_UNSEEN],
        link=[*(flag for flag in flags.link if flag not in _STRIPPING), _CHECKS],
    )


def _split(entries: Iterable[str]) -> Iterator[str]:
    """Split entries into flags as the shell behind torch's own builder would."""
    pending: str | None = None
    for word in _words(entries):
        if pending is not None:
            yield f"{pending}{'' if pending in _GLUED else '='}{word}"
            pending = None
        elif _TAKES_VALUE.fullmatch(word) or word in _GLUED:
            pending = word
        elif word:
            yield word
    if pending is not None:
        yield pending


def _words(entries: Iterable[str]) -> Iterator[str]:
    for entry in entries:
        if len(entry) > policy.MAX_FLAG_CHARACTERS:
            raise InvalidRequest(
                f"flag {_cut(entry)!r} is longer than {policy.MAX_FLAG_CHARACTERS} characters"
            )
        try:
            words = shlex.split(entry)
        except ValueError as error:
            raise InvalidRequest(f"flag {_cut(entry)!r} is not well quoted: {error}") from error
        for word in words:
            if not word.isprintable():
                raise InvalidRequest(f"flag {_cut(word)!r} holds characters that cannot be printed")
        yield from words


def _cut(flag: str) -> str:
    return flag if len(flag) <= policy.SHOWN_FLAG_CHARACTERS else f"{flag[: policy.SHOWN_FLAG_CHARACTERS]}..."


def _sort_flag(flag: str, kept: list[str], flags: Flags, normalise: Callable[[str], str | None]) -> None:
    folder = _FOLDER.fullmatch(flag)
    if _ARCHITECTURE.fullmatch(flag):
        variant = re.search(r"(?:sm|compute)_\d+([af])\b", flag)
        flags.architecture_suffix = variant.group(1) if variant else flags.architecture_suffix
        flags.note(flag, ": kernels are built for this machine's GPU")
    elif _IGNORED.fullmatch(flag):
        flags.note(flag, "")
    elif folder:
        _take_folder(flag, folder.group(1), folder.group(2), kept, flags)
    elif (allowed := normalise(flag)) is not None:
        kept.append(allowed)
    elif kept is flags.cuda and flag.startswith("-l"):
        _sort_flag(flag, flags.link, flags, _link_flag)
    else:
        raise InvalidRequest(f"flag {_cut(flag)!r} is not allowed")


def _take_folder(flag: str, option: str, folder: str, kept: list[str], flags: Flags) -> None:
    path = PurePosixPath(folder)
    if path.is_absolute() or option == "-L":
        flags.note(flag, ": torch's and the toolkit's own folders are always searched")
    elif ".." in path.parts:
        raise InvalidRequest(f"flag {_cut(flag)!r} leaves the build folder")
    elif not _PLAIN_FOLDER.fullmatch(folder):
        raise InvalidRequest(
            f"flag {_cut(flag)!r} is not allowed: it holds characters that a shell may misread"
        )
    else:
        kept.append(f"-I{folder}")


def _host_flag(flag: str) -> str | None:
    return flag if _HOST.fullmatch(flag) or _DEFINE.fullmatch(flag) or _LINK.fullmatch(flag) else None


def _link_flag(flag: str) -> str | None:
    return flag if _LINK.fullmatch(flag) else None


def _device_flag(flag: str) -> str | None:
    option, _, value = flag.partition("=")
    match option:
        case "-Xptxas" | "--ptxas-options":
            return _relay("-Xptxas", value, _PTXAS)
        case "-Xcompiler" | "--compiler-options":
            return _relay("-Xcompiler", value, _HOST) or _relay("-Xcompiler", value, _PLAIN_DEFINE)
        case "-Xcudafe" | "--cudafe-options":
            return _relay("-Xcudafe", value, _CUDAFE)
    return flag if _DEVICE.fullmatch(flag) or _PLAIN_DEFINE.fullmatch(flag) else None


def _relay(option: str, value: str, allowed: re.Pattern[str]) -> str | None:
    """Rewrite an option that carries options of another program; None unless all of them are allowed."""
    inner = [word for word in re.split(r"[,\s]+", value.strip("'\"")) if word]
    return f"{option}={','.join(inner)}" if inner and all(map(allowed.fullmatch, inner)) else None
