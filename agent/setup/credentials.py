"""Addresses and keys of live models; the only reader of them in the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from kernelwright.agent.providers.openai_kinds import OpenAI
from kernelwright.agent.setup.usage_error import UsageError

KEY_VARIABLES: Final = OpenAI.key_variables
URL_VARIABLES: Final = OpenAI.url_variables


def api_key(variables: Sequence[str] = KEY_VARIABLES) -> str:
    """The endpoint's key; empty when there is none."""
    return os.environ.get(key_variable(variables), "").strip()


def key_variable(variables: Sequence[str] = KEY_VARIABLES) -> str:
    """The variable the key comes from, or should come from; empty where a provider needs none."""
    return _first_set(variables) or (variables[-1] if variables else "")


def key_in(variable: str | None) -> str:
    """The key that a variable named by the user holds; raises UsageError where it is not set."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"{variable} is not set; a fallback's key_env names the variable that holds its key")
    return key


def base_url(variables: Sequence[str] = URL_VARIABLES) -> str | None:
    """The endpoint's base URL, where the environment names one; raises UsageError for a secret in it."""
    name = _first_set(variables)
    return None if name is None else address_in(name, os.environ[name].strip())


def address_in(variable: str, address: str) -> str:
    """An address that a variable of the environment holds; raises UsageError for a secret in it."""
    try:
        return _without_secret(address)
    except ValueError as error:
        raise UsageError(f"{variable} {error}") from None


def _without_secret(address: str) -> str:
    """The address itself; raises ValueError if it names a user or holds a password."""
    if "@" in urlsplit(address).netloc:
        raise ValueError(
            "holds a user or a password, and addresses are saved with runs; put the key into "
            f"{KEY_VARIABLES[0]} or the variable that key_env names, a judge's into KERNELWRIGHT_JUDGE_TOKEN"
        )
    return address


Address = Annotated[str, AfterValidator(_without_secret)]
"""Address of an endpoint, without secrets, so that it may be saved."""


JudgeAddress = Annotated[
    str, AfterValidator(_without_secret), Field(pattern=r"^https?://[^/\s?#]+(/[^\s?#]*)?$", max_length=200)
]
"""Address of a service that evaluates; its token is never part of it."""


def _first_set(names: Sequence[str]) -> str | None:
    return next((name for name in names if os.environ.get(name, "").strip()), None)
