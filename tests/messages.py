"""Kinds of messages, and handlers that fit them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType, UnionType
from typing import Any, get_args, get_type_hints

from kernelwright.evaluator.ipc.messages import Done, Message, Request, answers_to


def kinds_in(module: ModuleType, base: type[Message] = Message) -> set[type[Message]]:
    """The kinds of messages that a module defines."""
    return {
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, base) and not kind.__subclasses__()
        if kind.__module__ == module.__name__
    }


def check_handlers(table: Mapping[type[Request[Any]], Callable[[Any], Any]]) -> None:
    """Every handler takes its kind of request and returns what answers it."""
    for kind, handler in table.items():
        function = handler.func if isinstance(handler, partial) else handler
        hints = get_type_hints(function)
        returned = hints.pop("return")
        taken = next(iter(hints.values()))
        assert kind in (get_args(taken) if isinstance(taken, UnionType) else (taken,)), kind
        answer = Done if returned is type(None) else returned
        assert answer in answers_to(kind) or answer.__name__ == "Handover", kind
