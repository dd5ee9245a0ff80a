"""`kernelwright evaluate`: one file against one problem."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import kernelwright as kw
from kernelwright.agent.cli.evaluation.evaluation_card import card
from kernelwright.agent.cli.evaluation.policy import MAX_CANDIDATE_BYTES
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.console import is_watched, notes, out, print_json
from kernelwright.agent.cli.terminal.failures import did_pass, say
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks

Backend = Annotated[
    str | None,
    options.option(
        "Backend of the candidate. Default: guessed from the source.",
        *("--backend", "-b"),
        metavar="NAME",
        autocompletion=completion.backends,
    ),
]
NoDaemon = Annotated[
    bool,
    options.flag(
        "Evaluate in this process, and keep nothing warm for the next command.",
        "--no-daemon",
        envvar="KERNELWRIGHT_NO_DAEMON",
    ),
]


@options.with_settings(*options.POLICY)
def evaluate(
    given: options.Given,
    candidate: Annotated[
        str, options.argument("Python file that defines ModelNew; - reads it from stdin.", "FILE")
    ],
    problem: options.ProblemName,
    backend: Backend = None,
    cache: options.Cache = None,
    no_daemon: NoDaemon = False,
    json: options.Json = False,
) -> None:
    """Evaluate one candidate: build it in a sandbox, verify its outputs, measure its speed.

    The problem stays open in a daemon of this user, which ends after ten idle minutes, so that the next
    evaluation of it is quick; see `kernelwright daemon`.

    With --json the whole record goes to standard output and nothing else does. Exit status 0 means PASSED,
    1 any other status.
    """
    from kernelwright.agent.evaluation.evaluation_site import EvaluationRequest
    from kernelwright.agent.setup.judge_setup import remote_site
    from kernelwright.agent.setup.problem_lookup import GPU_SIZED, are_meant_for_gpus, one_problem
    from kernelwright.evaluator import evaluate as evaluate_here
    from kernelwright.evaluator import evaluate_warm, is_traced

    settings = given.run_settings()
    config = settings.evaluation
    reference = one_problem(problem)
    read = read_candidate(candidate, backend, config.device)
    if is_watched() and are_meant_for_gpus([reference], [read.backend], config.shapes):
        say(GPU_SIZED)
    judges = remote_site(settings, config, [read.backend], cache=cache)
    with judges or nullcontext(), _watched(reference.id) as hooks:
        if judges is not None:
            evaluation = judges.evaluate(EvaluationRequest(reference, read, config), hooks)
        else:
            here = evaluate_here if no_daemon or is_traced() else evaluate_warm
            evaluation = here(reference, read, config, cache=cache, on_stage=hooks.on_stage)
    if json:
        print_json(evaluation)
    else:
        out().print(card(evaluation))
    raise did_pass(evaluation.status == "PASSED")


def read_candidate(name: str, backend: str | None, device: str) -> kw.Candidate:
    """The candidate in a file, or on standard input for `-`; raises UsageError or ConfigError."""
    from kernelwright.evaluator import find_backend, guess_backend

    data = sys.stdin.buffer.read(MAX_CANDIDATE_BYTES + 1) if name == "-" else _read_bytes(Path(name))
    if len(data) > MAX_CANDIDATE_BYTES:
        raise UsageError(f"candidate {name}: larger than {MAX_CANDIDATE_BYTES} bytes; not a candidate")
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"candidate {name} is not UTF-8 text: byte {error.start} is invalid") from None
    plain = "cuda" if device.startswith("cuda") else "cpp"
    chosen = find_backend(backend or guess_backend(source) or plain)
    return kw.Candidate(source=source, backend=chosen.name)


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_CANDIDATE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read candidate {path}: {error.strerror}") from None


@contextmanager
def _watched(name: str) -> Iterator[EvaluationHooks]:
    """Show whoever watches where an evaluation is."""
    from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks

    if not is_watched():
        yield EvaluationHooks()
        return
    from kernelwright.agent.cli.terminal.progress import waiting_place

    with notes().status("starting") as status:
        yield EvaluationHooks(
            on_stage=lambda stage: status.update(f"{stage}: {name}"),
            on_queue=lambda ahead: status.update(f"{waiting_place(ahead)}: {name}"),
        )
