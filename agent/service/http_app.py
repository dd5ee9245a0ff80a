"""The HTTP interface: routes and their responses; it evaluates nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kernelwright.agent.evaluation.service_facts import ServiceFacts
from kernelwright.agent.records.provenance import versions
from kernelwright.agent.service.evaluation_queue import (
    Draining,
    EvaluationQueue,
    EvaluationView,
    NotKnown,
    NotSubmitted,
    QueueFull,
)
from kernelwright.agent.service.middleware import RequestGuard, Tokens
from kernelwright.agent.service.policy import HOUSEKEEPING_S, RETRY_AFTER_S, RequestBounds
from kernelwright.agent.service.responses import (
    MEDIA_TYPE,
    BatchAnswer,
    EvaluationAnswer,
    HealthAnswer,
    ProblemsAnswer,
    Refusal,
    ResultAnswer,
    batch_answer,
    evaluation_text,
    html_page,
    problems_text,
    refuse,
    refuse_invalid,
    retry_later,
)
from kernelwright.agent.service.service_workers import ServiceWorkers
from kernelwright.agent.service.store import StoreError
from kernelwright.agent.service.submission import ProblemRegistry, Submission, SubmissionBatch
from kernelwright.evaluator import ConfigError, MachineError, ProblemError

_LOG = logging.getLogger(__name__)
_JSON: Final = "application/json"
# Any: each is given errors of its own kind.
_REFUSALS: Final[Mapping[type[Exception], Callable[[Any], Response]]] = MappingProxyType(
    {
        ProblemError: lambda error: refuse(422, "problem-refused", str(error)),
        ConfigError: lambda error: refuse(422, "config-refused", str(error)),
        NotKnown: lambda error: refuse(404, "unknown-evaluation", str(error)),
        QueueFull: lambda error: retry_later(429, "queue-full", str(error), error.retry_after_s),
        Draining: lambda error: retry_later(503, "draining", str(error), RETRY_AFTER_S),
        StoreError: lambda error: retry_later(503, "storage", str(error), RETRY_AFTER_S),
        NotSubmitted: lambda error: refuse(403, "not-submitted", str(error)),
    }
)
"""Refusals of what is well formed."""

# Any: FastAPI's own type for the documentation of answers.
_Documented = dict[int | str, dict[str, Any]]

EvaluationId = Annotated[
    str, Path(pattern=r"^[0-9a-f]{64}$", description="The `id` in the answer to the submission.")
]
Wait = Annotated[
    float,
    Query(
        ge=0, le=3600, allow_inf_nan=False, description="Seconds to wait for the end; the operator bounds it."
    ),
]
Round = Annotated[int, Path(ge=1, le=1 << 31, description="The `round` of one of the `results`.")]
Seen = Annotated[
    str | None,
    Query(max_length=40, description="`state`, or `state/stage`, as the last answer had them."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The front of the service: access, bounds and retention."""

    tokens: Tokens
    bounds: RequestBounds = field(default_factory=RequestBounds)
    hosts: frozenset[str] | None = None
    """Host names that are accepted; None for any."""
    longest_wait_s: float = 60.0
    retain_s: float | None = None
    """Evaluations that ended longer ago are removed; None keeps all."""
    trouble: Callable[[], tuple[str, ...]] = tuple
    """Lists what keeps this machine from evaluating, at every health check."""
    facts: ServiceFacts


def create_app(
    queue: EvaluationQueue, workers: ServiceWorkers, registry: ProblemRegistry, front: Front
) -> FastAPI:
    """The application; `Service` starts and ends the workers."""
    app = FastAPI(
        title="kernelwright",
        version=versions().get("kernelwright", "unknown"),
        summary="Evaluates GPU kernels against PyTorch reference problems.",
        docs_url=None,
        redoc_url=None,
        lifespan=_housekeeping(queue, front.retain_s),
    )
    app.add_middleware(
        RequestGuard,
        tokens=front.tokens,
        bounds=front.bounds,
        hosts=front.hosts,
        answered=lambda code: queue.measures.answers.labels(str(code)).inc(),
    )
    _add_refusals(app)
    _add_evaluations(app, queue, registry, front)
    _add_looks(app, queue, workers, registry, front)
    _document_refusals(app)
    return app


def _add_evaluations(app: FastAPI, queue: EvaluationQueue, registry: ProblemRegistry, front: Front) -> None:
    bearer = HTTPBearer(auto_error=False, description="A token of this service, where it has any.")
    routes = APIRouter(
        prefix="/v1/evaluations", dependencies=[Depends(bearer)], responses=_refusals(401, 422)
    )

    @routes.post(
        "",
        status_code=202,
        responses=_answers(EvaluationAnswer, 202, 200) | _refusals(404, 408, 413, 415, 429, 503),
    )
    def submit(submission: Submission, request: Request) -> Response:
        """Evaluate a candidate. The same content is one evaluation, however often it is sent.

        202: accepted, or the same content is queued or running. 200: it has a result already.
        """
        return _submitted(queue, registry, submission, request.state.client)

    @routes.post("/batch", responses=_answers(BatchAnswer, 200) | _refusals(408, 413, 415))
    def submit_all(batch: SubmissionBatch, request: Request) -> Response:
        """Submit several candidates; each has the status and body that it would have had alone."""
        client = request.state.client
        return batch_answer(
            [_submitted_or_refused(queue, registry, one, client) for one in batch.submissions]
        )

    @routes.get("/{evaluation}", responses=_answers(EvaluationAnswer, 200) | _refusals(404))
    async def look(evaluation: EvaluationId, wait: Wait = 0.0, seen: Seen = None) -> Response:
        """The state of an evaluation, or, with `wait`, its end, or, with `seen`, its next change."""
        view = await queue.wait(evaluation, min(wait, front.longest_wait_s), seen)
        return _evaluation(view) if view else _unknown(evaluation)

    @routes.get("/{evaluation}/results/{number}", responses=_answers(ResultAnswer, 200) | _refusals(404))
    def result(evaluation: EvaluationId, number: Round) -> Response:
        """One result of a content, by its `round`; the score of the content is that of its evaluation."""
        text = queue.result(evaluation, number)
        if text is None:
            return refuse(404, "unknown-result", f"evaluation {evaluation} has no result {number}")
        return Response(f'{{"evaluation": {text}}}', media_type=_JSON)

    @routes.delete("/{evaluation}", responses=_answers(EvaluationAnswer, 200) | _refusals(403, 404, 503))
    def cancel(evaluation: EvaluationId, request: Request) -> Response:
        """Withdraw a token's submission. A queued or running evaluation that no token wants is cancelled.

        403: this token has not submitted it, or has withdrawn. An evaluation that ended stays.
        """
        try:
            view = queue.cancel(evaluation, client=request.state.client)
        except MachineError as error:
            _LOG.error("evaluation %s is cancelled, but: %s", evaluation[:12], error)
            view = queue.look(evaluation)
        return _evaluation(view) if view else _unknown(evaluation)

    app.include_router(routes)


def _add_looks(
    app: FastAPI, queue: EvaluationQueue, workers: ServiceWorkers, registry: ProblemRegistry, front: Front
) -> None:
    bearer = [Depends(HTTPBearer(auto_error=False))]
    listed = problems_text(list(registry.problems.values()))

    @app.get("/v1/problems", dependencies=bearer, responses=_answers(ProblemsAnswer, 200) | _refusals(401))
    async def problems() -> Response:
        """The problems that a submission can name."""
        return Response(listed, media_type=_JSON)

    @app.get("/v1/service", dependencies=bearer, responses=_answers(ServiceFacts, 200) | _refusals(401))
    def service() -> Response:
        """The evaluator and the devices behind this service, for a client to compare with its own."""
        facts = front.facts.model_copy(update={"trouble": _trouble(queue, workers, front)})
        return Response(facts.model_dump_json(), media_type=_JSON)

    def health_now() -> HealthAnswer:
        trouble = _trouble(queue, workers, front)
        return HealthAnswer(
            live=True,
            ready=not trouble,
            trouble=trouble,
            workers=workers.alive,
            queued=queue.queued,
            running=queue.running,
        )

    @app.get("/healthz", responses=_answers(HealthAnswer, 200, 503))
    def health() -> Response:
        """The health of the service: 503 while it cannot evaluate."""
        answer = health_now()
        return Response(answer.model_dump_json(), 200 if answer.ready else 503, media_type=_JSON)

    @app.get("/", include_in_schema=False)
    def front_page() -> Response:
        return html_page(
            "kernelwright service",
            health=health_now(),
            devices=workers.devices,
            problems=len(registry.problems),
            version=app.version,
        )

    @app.get("/docs", include_in_schema=False)
    async def interface() -> Response:
        return html_page("Interface of the kernelwright service", schema=app.openapi())

    @app.get("/healthz/live", status_code=204)
    async def live() -> Response:
        """204 while the service responds at all."""
        return Response(status_code=204)

    @app.get("/metrics", dependencies=bearer, responses=_refusals(401))
    def metrics() -> Response:
        """Prometheus' text format."""
        return Response(queue.measures.text(), media_type=queue.measures.content_type)


def _trouble(queue: EvaluationQueue, workers: ServiceWorkers, front: Front) -> tuple[str, ...]:
    if queue.is_draining:
        return ("the service is ending",)
    ended = workers.count - workers.alive
    return (*front.trouble(), *([f"{ended} of {workers.count} workers have ended"] if ended else ()))


def _add_refusals(app: FastAPI) -> None:
    # Any: FastAPI types handlers by the base class of exceptions.
    def on(kind: Any, answer: Callable[[Any], Response]) -> None:
        async def handler(request: Request, error: Exception) -> Response:
            return answer(error)

        app.add_exception_handler(kind, handler)

    on(RequestValidationError, refuse_invalid)
    for kind, answer in _REFUSALS.items():
        on(kind, answer)
    on(HTTPException, _refuse_http)
    on(Exception, lambda error: refuse(500, "internal", "the service failed; its log says why"))


def _refuse_http(error: HTTPException) -> Response:
    name = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "refused")
    return refuse(error.status_code, name, str(error.detail), headers=error.headers)


def _submitted(
    queue: EvaluationQueue, registry: ProblemRegistry, submission: Submission, client: str
) -> Response:
    content, asked = registry.resolve(submission), submission
    view = queue.accept(content, client=client, fresh=asked.fresh, only_known=asked.only_known)
    return _evaluation(view, 202 if view.entry.is_live else 200, located=True)


def _submitted_or_refused(
    queue: EvaluationQueue, registry: ProblemRegistry, submission: Submission, client: str
) -> Response:
    try:
        return _submitted(queue, registry, submission, client)
    except tuple(_REFUSALS) as error:
        return _REFUSALS[type(error)](error)


def _evaluation(view: EvaluationView, status: int = 200, *, located: bool = False) -> Response:
    headers = {"Location": f"/v1/evaluations/{view.entry.id}"} if located else None
    return Response(evaluation_text(view), status, headers, _JSON)


def _unknown(evaluation: str) -> Response:
    return refuse(404, "unknown-evaluation", f"no evaluation {evaluation}; submit it again")


def _housekeeping(
    queue: EvaluationQueue, retain_s: float | None
) -> Callable[[FastAPI], Any]:  # Any: a context manager
    async def forget() -> None:
        while retain_s is not None:
            try:
                await asyncio.to_thread(queue.prune, retain_s)
            except StoreError as error:
                _LOG.error("cannot remove old evaluations: %s", error)
            await asyncio.sleep(HOUSEKEEPING_S)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(forget())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return lifespan


def _answers(model: type, *codes: int) -> _Documented:
    return {code: {"model": model} for code in codes}


def _refusals(*codes: int) -> _Documented:
    return {code: {"model": Refusal} for code in codes}


def _document_refusals(app: FastAPI) -> None:
    """FastAPI documents every body as plain JSON; refusals have a media type of their own."""
    schema = app.openapi()
    for path in schema["paths"].values():
        for operation in path.values():
            for code, answer in operation["responses"].items():
                content = answer.get("content", {})
                if int(code) >= 400 and "Refusal" in str(content) and _JSON in content:
                    content[MEDIA_TYPE] = content.pop(_JSON)
