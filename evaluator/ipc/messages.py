"""Typed messages: frozen records that cross a process border as one JSON object each.

A field's annotation is its type and its bounds, and one strict decoder enforces both: a missing, unknown,
ill-typed or oversized field is a garbled message. Standard library only, since the contestant imports this.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.channel import ChannelGarbled, JsonObject

_UNIONS = (Union, UnionType)


class Bounds(NamedTuple):
    """Range of a number, or of the length of a text or list; both ends are allowed."""

    most: float
    least: float = 0

    def hold(self, value: float) -> bool:
        """Compare; NaN is nowhere within."""
        return self.least <= value <= self.most


Text = Annotated[str, Bounds(policy.MAX_MESSAGE_BYTES)]
"""As long as a message may be: source code, logs."""
Name = Annotated[str, Bounds(policy.MAX_NAME)]
Line = Annotated[str, Bounds(policy.MAX_LINE)]
Report = Annotated[str, Bounds(policy.MAX_REPORT)]
Count = Annotated[int, Bounds(policy.MAX_CALLS)]
Threads = Annotated[int, Bounds(policy.MAX_CALLS, 1)]
Number = Annotated[int, Bounds(2**64)]
"""A process, an address, a seed, a size in bytes."""
Seconds = Annotated[float, Bounds(policy.MAX_SECONDS)]
Milliseconds = Annotated[float, Bounds(policy.MAX_MS)]
Fields = dict[str, Any]
"""A record as JSON, which the receiver validates where it uses it."""
Records = Annotated[list[Fields], Bounds(policy.MAX_ITEMS)]
Texts = Annotated[list[Text], Bounds(policy.MAX_ITEMS)]


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
class Message:
    """One thing that a process says to another; every subclass is a frozen dataclass.

    `op` names its kind on the wire. A default is the sender's alone: a message has every field.
    """

    op: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)
        cls.op = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def to_json(self) -> JsonObject:
        """The JSON object that is sent."""
        return {"op": self.op, **vars(self)}


A_co = TypeVar("A_co", bound=Message, covariant=True)
M = TypeVar("M", bound=Message)
R = TypeVar("R")


class Request(Message, Generic[A_co]):
    """A message that is answered by one of kind `A_co`, or several kinds."""


class Done(Message):
    """The request was carried out; there is nothing else to say, so that its handler returns None."""


def decode(received: JsonObject, *kinds: type[M]) -> M:
    """The message that a JSON object is, of one of some kinds.

    Raises:
        ChannelGarbled: it is none of them, or a field is missing, unknown or out of bounds.
    """
    op = received.get("op")
    for kind in kinds:
        if kind.op == op:
            break
    else:
        raise ChannelGarbled(f"an answer out of order: {str(received)[:200]}")
    fits = _fits(kind)  # type: ignore[arg-type]  # classes are hashable
    if len(received) != len(fits) + 1:
        raise ChannelGarbled(f"{kind.op}: its fields are {str(list(received))[:200]}, not {list(fits)}")
    made = object.__new__(kind)  # a frozen class's own constructor takes three times as long
    for name, is_fit in fits.items():
        if name not in received or not is_fit(received[name]):
            raise ChannelGarbled(f"{kind.op}: {name} is missing or out of bounds")
        vars(made)[name] = received[name]
    return made


def answers_to(kind: type[Request[A_co]]) -> tuple[type[A_co], ...]:
    """The kinds of messages that answer a kind of request."""
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]  # of generics
    (answer,) = get_args(base)
    return get_args(answer) if get_origin(answer) in _UNIONS else (answer,)


class Dispatcher(Generic[R]):
    """Hands each request to the one handler of its kind."""

    # Any: a handler takes its own kind of request, which no type of a mapping can say; a test checks it.
    def __init__(
        self,
        handlers: Mapping[type[Request[Any]], Callable[[Any], R | None]],
        *,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """`before` is called before each handler."""
        self._handlers = {kind.op: (kind, handler) for kind, handler in handlers.items()}
        self._before = before

    def knows(self, received: JsonObject) -> bool:
        """Tell requests from answers."""
        return str(received.get("op")) in self._handlers

    def handle(self, received: JsonObject) -> R | Done:
        """Decode a request and return what its handler returns, or `Done` where that is None.

        Raises ChannelGarbled for an unknown one.
        """
        if not self.knows(received):
            raise ChannelGarbled(f"no known request: {str(received)[:200]}")
        kind, handler = self._handlers[str(received["op"])]
        request = decode(received, kind)
        self._before()
        answer = handler(request)
        return Done() if answer is None else answer


@cache
def _fits(kind: type) -> dict[str, Check]:
    """The check of each field of a kind."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: _check(hint) for name, hint in hints.items() if get_origin(hint) is not ClassVar}


Check = Callable[[Any], bool]
_FREE: dict[Any, Check] = {
    Any: lambda value: True,
    bool: lambda value: value is True or value is False,
    Fields: lambda value: isinstance(value, dict),
}
_NUMBERS = {int: (int,), float: (int, float)}


def _check(hint: Any, bounds: Bounds | None = None) -> Check:
    """The check of a value against an annotation; raises TypeError where that lacks bounds."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _FREE:
        return _FREE[hint]
    if origin is Annotated:
        return _check(args[0], args[1])
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in args
    if origin in _UNIONS:
        inner = _check(args[0])
        return lambda value: value is None or inner(value)
    if origin is tuple:
        parts = [_check(arg) for arg in args]
        return lambda value: (
            isinstance(value, list)
            and len(value) == len(parts)
            and all(check(part) for check, part in zip(parts, value, strict=True))
        )
    if bounds is None:
        raise TypeError(f"a field of type {hint} has no bounds")
    if origin is list:
        item = _check(args[0])
        return lambda value: isinstance(value, list) and bounds.hold(len(value)) and all(map(item, value))
    if hint is str:
        return lambda value: isinstance(value, str) and bounds.hold(len(value))
    return lambda value: type(value) in _NUMBERS[hint] and bounds.hold(value)
