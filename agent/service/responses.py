"""The bodies of all responses: evaluations, problems, health, pages, and refusals (RFC 9457)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, StrictUndefined
from starlette.responses import HTMLResponse, Response

from kernelwright.agent.evaluation.evaluation_site import EvaluationFailure
from kernelwright.agent.records.strict_json import plain
from kernelwright.agent.service.evaluation_queue import EvaluationView
from kernelwright.agent.service.policy import COMPLAINT_CHARACTERS, COMPLAINTS
from kernelwright.agent.service.store import EvaluationHead
from kernelwright.evaluator import Evaluation, Problem, Record, Stage

MEDIA_TYPE: Final = "application/problem+json"


class EvaluationAnswer(EvaluationHead):
    """An evaluation as it stands."""

    ahead: int | None
    """Evaluations that come first, while it is queued."""
    stage: Stage | None
    """Its stage, while it runs."""
    closing: bool
    """True once the service ends: what is queued is left to the next one."""
    failure: EvaluationFailure | None
    """Only of a failed one; submit it again to have it tried again."""
    evaluation: Evaluation | None
    """Only of a finished one: the lower median of the results, what did not pass first.

    Numbers that JSON lacks are the strings `NaN`, `Infinity` and `-Infinity`.
    """


class ResultAnswer(Record):
    """One result of a content."""

    evaluation: Evaluation


class Complaint(Record):
    """One error of a request."""

    pointer: str
    """JSON pointer into the body, or `query/NAME`, `path/NAME`."""
    detail: str


class Refusal(Record):
    """The reason why a request was refused."""

    type: str
    """`urn:kernelwright:` and a stable name."""
    title: str
    status: int
    detail: str
    errors: tuple[Complaint, ...] = ()


class BatchedAnswer(Record):
    """The answer to one submission of a batch."""

    status: int
    """HTTP status that it would have had alone."""
    retry_after_s: int | None
    """Seconds after which to send it again, where that may help."""
    body: EvaluationAnswer | Refusal


class BatchAnswer(Record):
    """The answers to a batch, in its order."""

    answers: tuple[BatchedAnswer, ...]


class ProblemAnswer(Record):
    """One problem of the service."""

    id: str
    sha: str
    """SHA-256 of its text."""
    shapes: dict[str, dict[str, object]]
    """Named overrides of its constants, for `config.shapes`."""


class ProblemsAnswer(Record):
    """Every problem of the service."""

    problems: tuple[ProblemAnswer, ...]


class HealthAnswer(Record):
    """The health of a service."""

    live: bool
    ready: bool
    trouble: tuple[str, ...]
    """Reasons why it is not ready."""
    workers: int
    """Threads that evaluate."""
    queued: int
    running: int


def evaluation_text(view: EvaluationView) -> str:
    """An `EvaluationAnswer` as JSON text; the result is passed on as it was stored."""
    entry = view.entry
    head = entry.model_dump(mode="json", include=set(EvaluationHead.model_fields)) | {
        "ahead": view.ahead,
        "stage": view.stage,
        "closing": view.closing,
        "failure": {"kind": entry.failure_kind, "message": entry.failure} if entry.failure else None,
    }
    return f'{json.dumps(plain(head))[:-1]}, "evaluation": {entry.verdict or "null"}}}'


def batch_answer(answers: Sequence[Response]) -> Response:
    """A `BatchAnswer`; bodies are passed on as they are."""
    texts = (
        f'{{"status": {answer.status_code}, "retry_after_s": {answer.headers.get("Retry-After", "null")}, '
        f'"body": {bytes(answer.body).decode()}}}'
        for answer in answers
    )
    return Response(f'{{"answers": [{", ".join(texts)}]}}', media_type="application/json")


def problems_text(problems: list[Problem]) -> str:
    """A `ProblemsAnswer` as JSON text."""
    listed = [{"id": problem.id, "sha": problem.sha, "shapes": plain(problem.shapes)} for problem in problems]
    return json.dumps({"problems": listed}, allow_nan=False)


def html_page(title: str, **facts: Any) -> HTMLResponse:  # Any: values of the template
    """A page of the service: no script, no network, one style whose hash the policy names."""
    text = (files("kernelwright.agent.service") / "pages.html.j2").read_text("utf-8")
    style, _, body = text.partition("</style>")
    digest = base64.b64encode(hashlib.sha256(style.partition("<style>")[2].encode()).digest()).decode()
    pages = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = pages.from_string(f"{style}</style>{body}").render(title=title, **facts)
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})


def refuse(
    status: int,
    name: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[Complaint] = (),
) -> Response:
    """An answer that refuses a request."""
    body = Refusal(
        type=f"urn:kernelwright:{name}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail[:COMPLAINT_CHARACTERS],
        errors=tuple(errors),
    )
    return Response(
        json.dumps(plain(body.model_dump(mode="json"))),
        status_code=status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def retry_later(status: int, name: str, detail: str, seconds: int) -> Response:
    """A refusal of a request that may be granted later."""
    return refuse(status, name, detail, headers={"Retry-After": str(seconds)})


def refuse_invalid(error: RequestValidationError) -> Response:
    """A refusal of an invalid request, with the place of every error."""
    complaints = [_complaint(one["loc"], str(one["msg"])) for one in error.errors()[:COMPLAINTS]]
    first = f"{complaints[0].pointer}: {complaints[0].detail}" if complaints else "the request is not valid"
    return refuse(422, "invalid-request", first, errors=complaints)


def _complaint(place: Sequence[object], message: str) -> Complaint:
    where = [str(part)[:80] for part in place]
    inside = where[0] == "body" if where else False
    pointer = "/" + "/".join(where[1:]) if inside else "/".join(where)
    return Complaint(pointer=pointer, detail=message[:COMPLAINT_CHARACTERS])
