"""`kernelwright evaluate`: one file against one problem."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.evaluation.policy import MAX_CANDIDATE_BYTES
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.failures import did_pass, say
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.evaluation import EvaluationRequest, EvaluationSite
    from kernelwright.evaluator import Candidate, Evaluation

Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        "-b",
        metavar="NAME",
        help="Backend of the candidate. Default: guessed from the source.",
        autocompletion=completion.backends,
    ),
]
NoDaemon = Annotated[
    bool,
    typer.Option(
        "--no-daemon",
        envvar="KERNELWRIGHT_NO_DAEMON",
        metavar="",
        help="Evaluate in this process, and keep nothing warm for the next command.",
    ),
]


@options.with_settings(*options.POLICY)
def evaluate(
    given: options.Given,
    candidate: Annotated[
        str, typer.Argument(metavar="FILE", help="Python file that defines ModelNew; - reads it from stdin.")
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
    from kernelwright.agent.cli.terminal.console import is_watched
    from kernelwright.agent.evaluation import EvaluationRequest
    from kernelwright.agent.setup.judge_setup import remote_site
    from kernelwright.agent.setup.problem_lookup import GPU_SIZED, are_meant_for_gpus, one_problem
    from kernelwright.evaluator import is_traced

    settings = given.run_settings()
    config = settings.evaluation
    reference = one_problem(problem)
    read = read_candidate(candidate, backend, config.device)
    if is_watched() and are_meant_for_gpus([reference], [read.backend], config.shapes):
        say(GPU_SIZED)
    request = EvaluationRequest(reference, read, config)
    judges = remote_site(settings, config, [read.backend], cache=cache)
    if judges is None:
        evaluation = _evaluate(request, cache=cache, warm=not no_daemon and not is_traced())
    else:
        with judges:
            evaluation = _evaluate_elsewhere(request, judges)
    if json:
        from kernelwright.agent.records.strict_json import strict_json

        print(strict_json(evaluation, indent=2))
    else:
        from kernelwright.agent.cli.evaluation.evaluation_card import card
        from kernelwright.agent.cli.terminal.console import out

        out().print(card(evaluation))
    raise did_pass(evaluation.status == "PASSED")


def read_candidate(name: str, backend: str | None, device: str) -> Candidate:
    """The candidate in a file, or on standard input for `-`.

    Raises:
        UsageError: unreadable, too large, or not text.
        ConfigError: unknown backend.
    """
    from kernelwright.evaluator import Candidate, find_backend, guess_backend

    data = sys.stdin.buffer.read(MAX_CANDIDATE_BYTES + 1) if name == "-" else _read_bytes(Path(name))
    if len(data) > MAX_CANDIDATE_BYTES:
        raise UsageError(f"candidate {name}: larger than {MAX_CANDIDATE_BYTES} bytes; not a candidate")
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"candidate {name} is not UTF-8 text: byte {error.start} is invalid") from None
    plain = "cuda" if device.startswith("cuda") else "cpp"
    chosen = find_backend(backend or guess_backend(source) or plain)
    return Candidate(source=source, backend=chosen.name)


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_CANDIDATE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read candidate {path}: {error.strerror}") from None


def _evaluate(request: EvaluationRequest, *, cache: Path | None, warm: bool) -> Evaluation:
    from kernelwright.agent.cli.terminal.console import is_watched, notes
    from kernelwright.evaluator import Stage, evaluate, evaluate_warm

    problem, candidate, config = request.problem, request.candidate, request.config
    chosen = evaluate_warm if warm else evaluate
    if not is_watched():
        return chosen(problem, candidate, config, cache=cache)
    with notes().status("starting") as status:

        def show(stage: Stage) -> None:
            status.update(f"{stage}: {problem.id}")

        return chosen(problem, candidate, config, cache=cache, on_stage=show)


def _evaluate_elsewhere(request: EvaluationRequest, judges: EvaluationSite) -> Evaluation:
    from kernelwright.agent.cli.terminal.console import is_watched, notes
    from kernelwright.agent.cli.terminal.progress import waiting_place
    from kernelwright.agent.evaluation import EvaluationHooks

    if not is_watched():
        return judges.evaluate(request, EvaluationHooks())
    with notes().status("starting") as status:
        name = request.problem.id
        return judges.evaluate(
            request,
            EvaluationHooks(
                on_stage=lambda stage: status.update(f"{stage}: {name}"),
                on_queue=lambda ahead: status.update(f"{waiting_place(ahead)}: {name}"),
            ),
        )
