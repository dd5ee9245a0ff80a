"""The HTTP interface: routes, what each may answer, and nothing that judges."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kernelwright.agent.records.provenance import versions
from kernelwright.agent.service.evaluation_queue import (
    Draining,
    EvaluationQueue,
    QueuedEvaluation,
    QueueFull,
    Standing,
)
from kernelwright.agent.service.middleware import Bounds, RequestGuard, Tokens
from kernelwright.agent.service.problem_details import (
    MEDIA_TYPE,
    Refusal,
    refuse,
    refuse_invalid,
    retry_later,
)
from kernelwright.agent.service.problem_registry import ProblemRegistry
from kernelwright.agent.service.responses import (
    EvaluationAnswer,
    HealthAnswer,
    ProblemsAnswer,
    evaluation_text,
    problems_text,
)
from kernelwright.agent.service.service_workers import ServiceWorkers
from kernelwright.agent.service.store import StoreError
from kernelwright.agent.service.submission import Submission
from kernelwright.evaluator import ConfigError, MachineError, ProblemError

_LOG = logging.getLogger(__name__)
_HOUSEKEEPING_S: Final = 600.0
_AGAIN_S: Final = 10
"""Seconds after which a service that ends, or a full disk, is worth another try."""
_JSON: Final = "application/json"

# Any: FastAPI's own type for the documentation of answers.
_Documented = dict[int | str, dict[str, Any]]

EvaluationId = Annotated[
    str, Path(pattern=r"^[0-9a-f]{64}$", description="What the submission was answered with.")
]
Wait = Annotated[
    float,
    Query(
        ge=0, le=3600, allow_inf_nan=False, description="Seconds to wait for the end; the operator bounds it."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """How the service meets its clients."""

    tokens: Tokens
    bounds: Bounds = field(default_factory=Bounds)
    hosts: frozenset[str] | None = None
    """Names it may be called by; None for any."""
    longest_wait_s: float = 60.0
    retain_s: float | None = None
    """Evaluations that ended longer ago are forgotten; None keeps all."""
    trouble: Callable[[], tuple[str, ...]] = tuple
    """What keeps this machine from judging, asked on every look at its health."""


def create_app(
    desk: EvaluationQueue, workers: ServiceWorkers, catalogue: ProblemRegistry, front: Front
) -> FastAPI:
    """The application; whoever runs it starts and ends the workers."""
    app = FastAPI(
        title="kernelwright",
        version=versions().get("kernelwright", "unknown"),
        summary="Judges GPU kernels against PyTorch reference problems.",
        redoc_url=None,
        lifespan=_housekeeping(desk, front.retain_s),
    )
    app.add_middleware(
        RequestGuard,
        tokens=front.tokens,
        bounds=front.bounds,
        hosts=front.hosts,
        answered=desk.measures.answered,
    )
    _add_refusals(app)
    _add_evaluations(app, desk, catalogue, front)
    _add_looks(app, desk, workers, catalogue, front)
    _document_refusals(app)
    return app


def _add_evaluations(app: FastAPI, desk: EvaluationQueue, catalogue: ProblemRegistry, front: Front) -> None:
    bearer = [Depends(HTTPBearer(auto_error=False, description="A token of this service, where it has any."))]

    @app.post(
        "/v1/evaluations",
        status_code=202,
        dependencies=bearer,
        responses=_answers(EvaluationAnswer, 202, 200) | _refusals(401, 408, 413, 415, 422, 429, 503),
    )
    def submit(submission: Submission) -> Response:
        """Have a candidate judged. The same content is one evaluation, however often it is sent.

        202: accepted, or the same content waits or runs. 200: it has a verdict already.
        """
        receipt = desk.accept(catalogue.resolve(submission), fresh=submission.fresh)
        status = 200 if receipt.taken is QueuedEvaluation.KNOWN else 202
        return _evaluation(Standing(receipt.entry), status, located=True)

    @app.get(
        "/v1/evaluations/{evaluation}",
        dependencies=bearer,
        responses=_answers(EvaluationAnswer, 200) | _refusals(401, 404, 422),
    )
    async def look(evaluation: EvaluationId, wait: Wait = 0.0) -> Response:
        """An evaluation as it stands, or, with `wait`, as soon as it has ended."""
        standing = await desk.wait(evaluation, min(wait, front.longest_wait_s))
        return _evaluation(standing) if standing else _unknown(evaluation)

    @app.delete(
        "/v1/evaluations/{evaluation}",
        dependencies=bearer,
        responses=_answers(EvaluationAnswer, 200) | _refusals(401, 404, 422, 503),
    )
    def cancel(evaluation: EvaluationId) -> Response:
        """Cancel an evaluation that waits or runs, for everybody who asked for it; an ended one stays."""
        try:
            standing = desk.cancel(evaluation)
        except MachineError as error:
            _LOG.error("evaluation %s is cancelled, but: %s", evaluation[:12], error)
            standing = desk.look(evaluation)
        return _evaluation(standing) if standing else _unknown(evaluation)


def _add_looks(
    app: FastAPI, desk: EvaluationQueue, workers: ServiceWorkers, catalogue: ProblemRegistry, front: Front
) -> None:
    bearer = [Depends(HTTPBearer(auto_error=False))]
    listed = problems_text(list(catalogue.problems.values()))

    @app.get("/v1/problems", dependencies=bearer, responses=_answers(ProblemsAnswer, 200) | _refusals(401))
    async def problems() -> Response:
        """The problems that can be named in a submission."""
        return Response(listed, media_type=_JSON)

    @app.get("/healthz", responses=_answers(HealthAnswer, 200, 503))
    def health() -> Response:
        """Whether the service judges: 503 while it does not."""
        trouble = list(front.trouble())
        if workers.alive < workers.count:
            trouble.append(f"{workers.count - workers.alive} of {workers.count} workers have ended")
        if desk.is_draining:
            trouble.append("the service is ending")
        answer = HealthAnswer(
            live=True,
            ready=not trouble,
            trouble=tuple(trouble),
            workers=workers.alive,
            queued=desk.queued,
            running=desk.running,
        )
        return Response(answer.model_dump_json(), 503 if trouble else 200, media_type=_JSON)

    @app.get("/healthz/live", status_code=204)
    async def live() -> Response:
        """Whether the service answers at all."""
        return Response(status_code=204)

    @app.get("/metrics", dependencies=bearer, responses=_refusals(401))
    def metrics() -> Response:
        """Prometheus' text format."""
        return Response(desk.measures.text(), media_type=desk.measures.content_type)


def _add_refusals(app: FastAPI) -> None:
    # Any: FastAPI types handlers by the base class of exceptions.
    def on(kind: Any, answer: Callable[[Any], Response]) -> None:
        async def handler(request: Request, error: Exception) -> Response:
            return answer(error)

        app.add_exception_handler(kind, handler)

    on(RequestValidationError, refuse_invalid)
    on(ProblemError, lambda error: refuse(422, "problem-refused", str(error)))
    on(ConfigError, lambda error: refuse(422, "config-refused", str(error)))
    on(QueueFull, lambda error: retry_later(429, "queue-full", str(error), error.retry_after_s))
    on(Draining, lambda error: retry_later(503, "draining", str(error), _AGAIN_S))
    on(StoreError, lambda error: retry_later(503, "storage", str(error), _AGAIN_S))
    on(HTTPException, _refuse_plainly)
    on(Exception, lambda error: refuse(500, "internal", "the service failed; its log says why"))


def _refuse_plainly(error: HTTPException) -> Response:
    names = {404: "not-found", 405: "method-not-allowed"}
    return refuse(
        error.status_code,
        names.get(error.status_code, "refused"),
        str(error.detail),
        headers=error.headers,
    )


def _evaluation(standing: Standing, status: int = 200, *, located: bool = False) -> Response:
    headers = {"Location": f"/v1/evaluations/{standing.entry.id}"} if located else None
    return Response(evaluation_text(standing), status, headers, _JSON)


def _unknown(evaluation: str) -> Response:
    return refuse(
        404, "unknown-evaluation", f"no evaluation {evaluation}; submit it (again) to have it judged"
    )


def _housekeeping(
    desk: EvaluationQueue, retain_s: float | None
) -> Callable[[FastAPI], Any]:  # Any: a context manager
    async def forget() -> None:
        while retain_s is not None:
            try:
                await asyncio.to_thread(desk.prune, retain_s)
            except StoreError as error:
                _LOG.error("old evaluations stay: %s", error)
            await asyncio.sleep(_HOUSEKEEPING_S)

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
