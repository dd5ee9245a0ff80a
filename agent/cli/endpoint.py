"""Where a live model is and what opens it: the only reader of keys and addresses from the environment."""

from __future__ import annotations

import os
from typing import Final

from agent.cli.failures import Usage

KEY_VARIABLES: Final = ("KERNELWRIGHT_API_KEY", "OPENAI_API_KEY")
"""Ours first, then the one that every OpenAI client reads."""

URL_VARIABLES: Final = ("KERNELWRIGHT_BASE_URL", "OPENAI_BASE_URL")


def api_key() -> str:
    """The endpoint's key; empty when there is none."""
    return os.environ.get(key_variable(), "").strip()


def key_variable() -> str:
    """The variable the key comes from, or should come from."""
    return _first_set(KEY_VARIABLES) or KEY_VARIABLES[-1]


def key_in(variable: str | None) -> str:
    """The key that a variable named by the user holds.

    Raises:
        Usage: it is not set.
    """
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise Usage(f"{variable} is not set; a fallback's key_env names the variable that holds its key")
    return key


def base_url() -> str | None:
    """The endpoint's address, where the environment names one."""
    name = _first_set(URL_VARIABLES)
    return os.environ[name].strip() if name else None


def _first_set(names: tuple[str, ...]) -> str | None:
    return next((name for name in names if os.environ.get(name, "").strip()), None)
