"""Messages between a command and the daemon: JSON, each a frozen record with a kind.

Both sides are programs of the same user and version; what they exchange is validated all the same.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from kernelwright.evaluator.daemon.policy import MAX_MESSAGE_BYTES
from kernelwright.evaluator.schema import errors
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.evaluation import Evaluation, Stage
from kernelwright.evaluator.schema.problem import Problem
from kernelwright.evaluator.schema.record import Record


class Evaluate(Record):
    """Evaluate one candidate. Closing the connection cancels."""

    kind: Literal["evaluate"] = "evaluate"
    problem: Problem
    candidate: Candidate
    config: EvaluationConfig


class Describe(Record):
    """Tell what the daemon does."""

    kind: Literal["describe"] = "describe"


class Stop(Record):
    """End, and cancel what runs."""

    kind: Literal["stop"] = "stop"


class Entered(Record):
    """An evaluation entered a stage."""

    kind: Literal["entered"] = "entered"
    stage: Stage


class Evaluated(Record):
    """The evaluation has ended."""

    kind: Literal["evaluated"] = "evaluated"
    evaluation: Evaluation


class Failed(Record):
    """Nothing was scored: an error of `schema/errors.py` by name, and its text."""

    kind: Literal["failed"] = "failed"
    error: str
    message: str

    def exception(self) -> EvaluatorError:
        """The error to raise here."""
        known = getattr(errors, self.error, None)
        if isinstance(known, type) and issubclass(known, EvaluatorError):
            return known(self.message)
        return EvaluatorError(f"{self.error}: {self.message}")


class DaemonStatus(Record):
    """A daemon, as `Describe` is answered."""

    kind: Literal["description"] = "description"
    pid: int
    cache: str
    running: int
    """Evaluations that run."""
    evaluated: int
    """Evaluations that have ended."""
    idle_s: float
    """Seconds since the last request ended; 0 while one runs."""


Message = TypeVar("Message")
Request = Evaluate | Describe | Stop
Reply = Entered | Evaluated | Failed | DaemonStatus

REQUEST: Final[TypeAdapter[Request]] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])
REPLY: Final[TypeAdapter[Reply]] = TypeAdapter(Annotated[Reply, Field(discriminator="kind")])


def send(connection: Connection, message: Request | Reply) -> None:
    """Send a message; raises OSError once the other side is gone."""
    connection.send_bytes(message.model_dump_json().encode("utf-8", "surrogatepass"))


def receive(connection: Connection, kind: TypeAdapter[Message]) -> Message:
    """Receive a `REQUEST` or a `REPLY`.

    Raises:
        EOFError, OSError: the other side is gone.
        EvaluatorError: it is none.
    """
    data = connection.recv_bytes(MAX_MESSAGE_BYTES)
    try:
        return kind.validate_json(data)
    except ValidationError as error:
        raise EvaluatorError(f"a message that does not fit this version: {error}") from error
