"""Typed messages: frozen records that cross a process border as one JSON object each.

A field's annotation is its type and its bounds, and one strict decoder enforces both: a missing, unknown,
ill-typed or oversized field is a garbled message. Standard library only, since the contestant imports this.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
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
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.channel import ChannelGarbled, JsonObject

_UNIONS = (Union, UnionType)


class Bounds(NamedTuple):
    """Range of a number, or of the length of a text, list or object; both ends are allowed."""

    most: float
    least: float = 0


Text = Annotated[str, Bounds(policy.MAX_MESSAGE_BYTES)]
"""As long as a message may be: source code, logs."""
Name = Annotated[str, Bounds(policy.MAX_NAME)]
Line = Annotated[str, Bounds(policy.MAX_LINE)]
Report = Annotated[str, Bounds(policy.MAX_REPORT)]
Count = Annotated[int, Bounds(policy.MAX_CALLS)]
Number = Annotated[int, Bounds(2**64)]
"""A process, an address, a seed, a size in bytes."""
Seconds = Annotated[float, Bounds(policy.MAX_SECONDS)]
Milliseconds = Annotated[float, Bounds(policy.MAX_MS)]


class Message:
    """What one process says to another; `op` names its kind on the wire."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    op: ClassVar[str]

    def to_json(self) -> JsonObject:
        """The JSON object that is sent."""
        return {"op": self.op} | {name: getattr(self, name) for name in self.__slots__}


A_co = TypeVar("A_co", bound=Message, covariant=True)
M = TypeVar("M", bound=Message)
R = TypeVar("R")


class Request(Message, Generic[A_co]):
    """A message that is answered by one of kind `A_co`, or several kinds."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(kind: type[M]) -> type[M]:
    """Make a class of annotated fields a kind of message."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    made.op = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    return made


@message
class Done(Message):
    """The request was carried out; there is nothing else to say."""


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
    checks = _checks(kind)  # type: ignore[arg-type]  # classes are hashable
    if len(received) != len(checks) + 1:
        raise ChannelGarbled(f"{kind.op}: its fields are {str(list(received))[:200]}, not {list(checks)}")
    values = {}
    for name, check in checks.items():
        try:
            values[name] = check(received[name])
        except (KeyError, ValueError) as error:
            raise ChannelGarbled(f"{kind.op}: {name}: {str(error)[:200]}") from None
    return kind(**values)


def answers_to(kind: type[Request[A_co]]) -> tuple[type[A_co], ...]:
    """The kinds of messages that answer a kind of request."""
    ((answer,),) = (get_args(base) for base in kind.__orig_bases__)  # type: ignore[attr-defined]  # of generics
    return get_args(answer) if get_origin(answer) in _UNIONS else (answer,)


class Dispatcher(Generic[R]):
    """Hands each request to the one handler of its kind."""

    # Any: a handler takes its own kind of request, which no type of a mapping can say; a test checks it.
    def __init__(
        self,
        handlers: Mapping[type[Request[Any]], Callable[[Any], R]],
        *,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """`before` is called before each handler."""
        self._handlers = {kind.op: (kind, handler) for kind, handler in handlers.items()}
        self._before = before

    def knows(self, received: JsonObject) -> bool:
        """Tell requests from answers."""
        return str(received.get("op")) in self._handlers

    def handle(self, received: JsonObject) -> R:
        """Decode a request and return what its handler returns.

        Raises:
            ChannelGarbled: it is no request that is known here.
        """
        kind, handler = self._handlers.get(str(received.get("op")), (None, None))
        if kind is None or handler is None:
            raise ChannelGarbled(f"no known request: {str(received)[:200]}")
        request = decode(received, kind)
        self._before()
        return handler(request)


Check = Callable[[Any], Any]  # Any: JSON in, a field's value out


@cache
def _checks(kind: type[Message]) -> dict[str, Check]:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: _check(hints[each.name]) for each in fields(kind)}  # type: ignore[arg-type]


def _check(hint: Any, bounds: Bounds | None = None) -> Check:
    """The function that checks a value against an annotation; raises ValueError where it does not fit.

    Raises:
        TypeError: the annotation is of no known form, or sets no bounds where there have to be some.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return _as_is
    if hint is bool:
        return _flag
    if origin is Annotated:
        return _check(args[0], args[1])
    if origin is Literal:
        return _one_of(args)
    if origin in _UNIONS and len(args) == 2 and args[1] is type(None):
        return _optional(_check(args[0]))
    if origin is tuple:
        return _tuple([_check(arg) for arg in args])
    if origin is dict and args == (str, Any):
        return _object
    if bounds is not None and origin is list:
        return _list(_check(args[0]), bounds)
    if bounds is not None and hint in (str, int, float):
        return {str: _text, int: _integer, float: _number}[hint](bounds)
    raise TypeError(f"no check for a field of type {hint} within {bounds}")


def _as_is(value: Any) -> Any:
    return value


def _flag(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise ValueError("not true or false")


def _object(value: Any) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise ValueError("not an object")


def _one_of(known: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, str) and value in known:
            return value
        raise ValueError(f"not one of {known}")

    return check


def _optional(inner: Check) -> Check:
    return lambda value: None if value is None else inner(value)


def _tuple(inner: list[Check]) -> Check:
    def check(value: Any) -> tuple[Any, ...]:
        if isinstance(value, list | tuple) and len(value) == len(inner):
            return tuple(each(item) for each, item in zip(inner, value, strict=True))
        raise ValueError(f"not a list of {len(inner)}")

    return check


def _list(inner: Check, bounds: Bounds) -> Check:
    def check(value: Any) -> list[Any]:
        if isinstance(value, list | tuple) and bounds.least <= len(value) <= bounds.most:
            return [inner(item) for item in value]
        raise ValueError(f"not a list of {bounds.least} to {bounds.most}")

    return check


def _text(bounds: Bounds) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, str) and bounds.least <= len(value) <= bounds.most:
            return value
        raise ValueError(f"not a text of {bounds.least} to {bounds.most} characters")

    return check


def _integer(bounds: Bounds) -> Check:
    def check(value: Any) -> int:
        if type(value) is int and bounds.least <= value <= bounds.most:
            return value
        raise ValueError(f"not a whole number from {bounds.least} to {bounds.most}")

    return check


def _number(bounds: Bounds) -> Check:
    def check(value: Any) -> float:
        if type(value) in (int, float) and bounds.least <= value <= bounds.most and not math.isnan(value):
            return float(value)
        raise ValueError(f"not a number from {bounds.least} to {bounds.most}")

    return check
