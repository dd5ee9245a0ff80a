"""Finds repeated sources: equal but for names and layout, or nearly so.

Two sources that share most of their runs of tokens share most of their smallest hashes (Broder, On the
resemblance and containment of documents, 1997). Memory is a few kilobytes a source, and a look-up does not
get slower with their number. Written here because datasketch needs numpy and scipy for these 60 lines.
"""

from __future__ import annotations

import keyword
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from kernelwright.agent.datasets.policy import (
    BAND_SOURCES,
    NEAR_SHARE,
    RUN_TOKENS,
    SKETCH_BANDS,
    SKETCH_HASHES,
)
from kernelwright.agent.extraction.fingerprint import normalised
from kernelwright.evaluator import sha256_text

_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_ESCAPED_BREAK: Final = re.compile(r"\\[nt]")
_DEFINES: Final = frozenset(
    {"auto", "bool", "class", "def", "double", "float", "for", "half", "int", "struct", "void"}
    | {"int32_t", "int64_t", "size_t", "Tensor"}
)
"""Words before a name that the source defines."""
_WORDS: Final = (
    _DEFINES
    | frozenset(keyword.kwlist)
    | {"case", "char", "const", "constexpr", "delete", "do", "extern", "inline", "long", "namespace", "new"}
    | {"nullptr", "short", "sizeof", "static", "switch", "template", "this", "typename", "unsigned", "using"}
    | {"false", "nn", "null", "self", "tl", "torch", "triton", "true"}
)
_CONTRACT: Final = frozenset({"Model", "ModelNew", "__init__", "forward"})
"""Names that the problem format fixes."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """The part of a source that is remembered."""

    exact: str
    """Equal for sources that differ only in comments, layout and the names of variables."""
    bands: tuple[tuple[int, ...], ...]
    members: frozenset[int]
    """The smallest hashes of its runs; all of them when there are few."""

    def share(self, other: Sketch) -> float:
        """Estimate the share of common runs, 0 to 1."""
        union = sorted(self.members | other.members)
        if max(len(self.members), len(other.members)) >= SKETCH_HASHES:
            union = union[:SKETCH_HASHES]
        common = self.members & other.members
        return sum(value in common for value in union) / len(union) if union else 1.0

    def is_near(self, other: Sketch, least: float) -> bool:
        """Return whether both are equal or share at least this much."""
        if self.exact == other.exact:
            return True
        # The share is no larger than what both have over what the larger has, which is found sooner.
        most = max(len(self.members), len(other.members))
        return len(self.members & other.members) >= least * most and self.share(other) >= least


def sketch(source: str) -> Sketch:
    tokens = _TOKEN.findall(_ESCAPED_BREAK.sub(" ", normalised(source)))
    own = _own_names(tokens)
    order: dict[str, str] = {}
    # A name after a dot is a field, even if a variable has the same name.
    is_own = [token in own and before != "." for before, token in zip(["", *tokens], tokens, strict=False)]
    both = list(zip(tokens, is_own, strict=True))
    renamed = [order.setdefault(token, f"${len(order)}") if mine else token for token, mine in both]
    # A name's number changes when another is put before it, so runs are of names without numbers.
    plain = ["$" if mine else token for token, mine in both]
    runs = (
        " ".join(plain[start : start + RUN_TOKENS]) for start in range(max(1, len(plain) - RUN_TOKENS + 1))
    )
    hashes = sorted({_hash(run) for run in runs})
    return Sketch(
        exact=sha256_text(" ".join(renamed))[:32],
        bands=_bands(hashes),
        members=frozenset(hashes[:SKETCH_HASHES]),
    )


class Repeats:
    """Remembers sources and recognizes repeats."""

    def __init__(self, share: float | None = NEAR_SHARE) -> None:
        """With None, recognize exact repeats only."""
        self._least = share
        self._exact: set[str] = set()
        self._near: dict[tuple[int, ...], list[Sketch]] = defaultdict(list)

    def add(self, new: Sketch) -> bool:
        """Remember a source; return False for a repeat."""
        if self.holds(new):
            return False
        self._exact.add(new.exact)
        if self._least is not None:
            for band in new.bands:
                if len(self._near[band]) < BAND_SOURCES:
                    self._near[band].append(new)
        return True

    def holds(self, new: Sketch) -> bool:
        """Return whether a source is a repeat."""
        if new.exact in self._exact:
            return True
        least = self._least
        if least is None:
            return False
        near = {id(known): known for band in new.bands for known in self._near.get(band, ())}
        return any(new.is_near(known, least) for known in near.values())


def _own_names(tokens: list[str]) -> frozenset[str]:
    """Names the source chose: those it defines, and those it neither calls, imports nor looks up."""
    defined, free, fixed = set(), set(), set()
    padded = ["", "", *tokens, "", ""]
    for place, token in enumerate(tokens, 2):
        if not (token[0].isalpha() or token[0] == "_") or token in _WORDS:
            continue
        before, after = padded[place - 1], padded[place + 1]
        if before in _DEFINES and token not in _CONTRACT:
            defined.add(token)
        elif (
            before in (".", "import", "from", "as")
            or after in ("(", "<")
            or "".join(padded[place - 2 : place]) in ("::", "->")
            or "".join(padded[place + 1 : place + 3]) == "::"
        ):
            fixed.add(token)
        else:
            free.add(token)
    return frozenset(defined | (free - fixed))


def _hash(run: str) -> int:
    # CRC-32 is linear; multiplying by an odd constant spreads runs that differ in one character.
    return zlib.crc32(run.encode("utf-8", "surrogatepass")) * 0x9E3779B1 & 0xFFFFFFFF


def _bands(hashes: list[int]) -> tuple[tuple[int, ...], ...]:
    """The two smallest hashes in each of a few classes; near repeats agree in one class almost surely."""
    found: list[list[int]] = [[] for _ in range(SKETCH_BANDS)]
    for value in hashes:
        if len(found[value % SKETCH_BANDS]) < 2:
            found[value % SKETCH_BANDS].append(value)
    return tuple((number, *values) for number, values in enumerate(found) if values)
