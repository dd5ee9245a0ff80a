"""Refusals as RFC 9457 says them: `application/problem+json`, each kind with a name of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from kernelwright.agent.records.strict_json import plain
from kernelwright.evaluator import Record

MEDIA_TYPE: Final = "application/problem+json"
_MOST_ERRORS: Final = 20
_LONGEST: Final = 500


class Complaint(Record):
    """One thing that is wrong with a request."""

    pointer: str
    """JSON pointer into the body, or `query/NAME`, `path/NAME`."""
    detail: str


class Refusal(Record):
    """Why a request was not granted."""

    type: str
    """`urn:kernelwright:` and a name that stays the same."""
    title: str
    status: int
    detail: str
    errors: tuple[Complaint, ...] = ()


def refuse(
    status: int,
    name: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[Complaint] = (),
) -> Response:
    """An answer that says no."""
    body = Refusal(
        type=f"urn:kernelwright:{name}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail[:_LONGEST],
        errors=tuple(errors),
    )
    return Response(
        json.dumps(plain(body.model_dump(mode="json"))),
        status_code=status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def retry_later(status: int, name: str, detail: str, seconds: int) -> Response:
    """A refusal that may be granted later."""
    return refuse(status, name, detail, headers={"Retry-After": str(seconds)})


def refuse_invalid(error: RequestValidationError) -> Response:
    """A request whose form is wrong, with every place that is."""
    complaints = [_complaint(one["loc"], str(one["msg"])) for one in error.errors()[:_MOST_ERRORS]]
    first = f"{complaints[0].pointer}: {complaints[0].detail}" if complaints else "the request is not valid"
    return refuse(422, "invalid-request", first, errors=complaints)


def _complaint(place: Sequence[object], message: str) -> Complaint:
    where = [str(part)[:80] for part in place]
    inside = where[0] == "body" if where else False
    pointer = "/" + "/".join(where[1:]) if inside else "/".join(where)
    return Complaint(pointer=pointer, detail=message[:_LONGEST])
