"""Whether two sources are the same work: equal but for names and layout, or nearly so.

Near repeats are found by the smallest hashes of a source's runs of tokens: two sources that share most of
their runs share most of their smallest hashes. (Broder, On the resemblance and containment of documents,
1997.) Memory is a few kilobytes a source, and looking one up does not get slower the more there are.
"""

from __future__ import annotations

import keyword
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from kernelwright.agent.extraction.fingerprint import normalised
from kernelwright.evaluator import sha256_text

NEAR_SHARE: Final = 0.9
"""Share of runs two sources have in common to be near repeats."""

RUN: Final = 5
"""Tokens of a run."""
_SKETCH: Final = 256
"""Hashes kept; the estimate of a share near 0.9 is good to 0.02."""
_BANDS: Final = 8
_CROWD: Final = 64
"""Most sources kept under one key; what everything has in common tells nothing apart."""

_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_ESCAPED_BREAK: Final = re.compile(r"\\[nt]")
_DEFINES: Final = frozenset(
    {"auto", "bool", "class", "def", "double", "float", "for", "half", "int", "struct", "void"}
    | {"int32_t", "int64_t", "size_t", "Tensor"}
)
"""Words before a name that the source gives itself."""
_WORDS: Final = (
    _DEFINES
    | frozenset(keyword.kwlist)
    | {"case", "char", "const", "constexpr", "delete", "do", "extern", "inline", "long", "namespace", "new"}
    | {"nullptr", "short", "sizeof", "static", "switch", "template", "this", "typename", "unsigned", "using"}
    | {"false", "nn", "null", "self", "tl", "torch", "triton", "true"}
)
_CONTRACT: Final = frozenset({"Model", "ModelNew", "__init__", "forward"})
"""Names that are not the source's to choose."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is remembered of a source."""

    exact: str
    """Equal for sources that differ only in comments, layout and the names of variables."""
    smallest: tuple[int, ...]
    """The smallest hashes of its runs, ascending; all of them when there are few."""
    bands: tuple[tuple[int, ...], ...]
    members: frozenset[int]
    """The smallest hashes once more, to look up."""

    def share(self, other: Sketch) -> float:
        """Estimated share of runs that both have, 0 to 1."""
        return _share(self.smallest, other.smallest)

    def is_near(self, other: Sketch, least: float) -> bool:
        """Whether they are equal or have at least this share in common; most that do not are told at once."""
        if self.exact == other.exact:
            return True
        # The share is no larger than what both have over what the larger has.
        most = max(len(self.members), len(other.members))
        if min(len(self.members), len(other.members)) < least * most:
            return False
        return len(self.members & other.members) >= least * most and self.share(other) >= least


def sketch(source: str) -> Sketch:
    """Reduce a source to its sketch."""
    tokens = _TOKEN.findall(_ESCAPED_BREAK.sub(" ", normalised(source)))
    own = _own_names(tokens)
    order: dict[str, str] = {}
    # What follows a dot is a field of something, even where a variable has the same name.
    is_own = [token in own and before != "." for before, token in zip(["", *tokens], tokens, strict=False)]
    both = list(zip(tokens, is_own, strict=True))
    renamed = [order.setdefault(token, f"${len(order)}") if mine else token for token, mine in both]
    # A name's number changes when another is put before it, so runs are of names without numbers.
    plain = ["$" if mine else token for token, mine in both]
    runs = (" ".join(plain[start : start + RUN]) for start in range(max(1, len(plain) - RUN + 1)))
    hashes = sorted({_hash(run) for run in runs})
    return Sketch(
        exact=sha256_text(" ".join(renamed))[:32],
        smallest=tuple(hashes[:_SKETCH]),
        bands=_bands(hashes),
        members=frozenset(hashes[:_SKETCH]),
    )


class Repeats:
    """Remembers sources, and tells whether a new one repeats one of them."""

    def __init__(self, share: float | None = NEAR_SHARE) -> None:
        """None looks for exact repeats only."""
        self._least = share
        self._exact: set[str] = set()
        self._near: dict[tuple[int, ...], list[Sketch]] = defaultdict(list)

    def add(self, new: Sketch) -> bool:
        """Remember a source unless it is a repeat; whether it was new."""
        if self.holds(new):
            return False
        self._exact.add(new.exact)
        if self._least is not None:
            for band in new.bands:
                if len(self._near[band]) < _CROWD:
                    self._near[band].append(new)
        return True

    def holds(self, new: Sketch) -> bool:
        """Whether a source is a repeat."""
        if new.exact in self._exact:
            return True
        least = self._least
        if least is None:
            return False
        near = {id(known): known for band in new.bands for known in self._near.get(band, ())}
        return any(new.is_near(known, least) for known in near.values())


def _own_names(tokens: list[str]) -> frozenset[str]:
    """Names the source chose itself: what it defines, and what it neither calls, imports nor looks up."""
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
    found: list[list[int]] = [[] for _ in range(_BANDS)]
    for value in hashes:
        if len(found[value % _BANDS]) < 2:
            found[value % _BANDS].append(value)
    return tuple((number, *values) for number, values in enumerate(found) if values)


def _share(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    left, right = set(one), set(other)
    union = sorted(left | right)
    if max(len(one), len(other)) >= _SKETCH:
        union = union[:_SKETCH]
    common = left & right
    return sum(value in common for value in union) / len(union) if union else 1.0
