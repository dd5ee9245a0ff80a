"""Judges elsewhere: one result whatever happens on the way, and a refusal where scores would not compare."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.remote_site import RemoteSite
from kernelwright.agent.evaluation.service_pool import Patience
from kernelwright.agent.providers.replay.loopback_server import (
    HttpFailure,
    HttpRequest,
    HttpResponse,
    LoopbackServer,
)
from kernelwright.agent.service.service_facts import ServedDevice
from kernelwright.agent.service.service_setup import facts_of
from kernelwright.evaluator import (
    Cancelled,
    CancelToken,
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    Problem,
    ProblemError,
    Stage,
    Status,
    problem_from_source,
    source_sha,
)
from tests.agent.service.standin import PROBLEM, TOKEN, Running, StandIn, evaluation, source
from tests.agent.service.test_load import Hunted

ROOT = Path(__file__).parents[3]
CONFIG = EvaluationConfig()
QUICK = Patience(lost_s=1.0, nobody_s=20.0)
HASTY = Patience(lost_s=0.2, nobody_s=0.5)


def request(text: str, problem: Problem = PROBLEM, *besides: Evaluation, **config: Any) -> EvaluationRequest:
    candidate = Candidate(source=text, backend="cpp")
    return EvaluationRequest(problem, candidate, EvaluationConfig(**config), besides)


def site(*services: Running | str, patience: Patience = QUICK, **options: Any) -> RemoteSite:
    tokens = {one if isinstance(one, str) else one.url: None for one in services}
    tokens |= {one.url: one.token for one in services if isinstance(one, Running) and one.token}
    config = options.pop("config", CONFIG)
    return RemoteSite(tokens, config, ["cpp"], patience=patience, **options)


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


def test_a_result_comes_with_its_stages_and_its_place_in_the_queue(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    judge = StandIn()
    stages: list[Stage] = []
    places: list[int | None] = []
    with Running(tmp_path, judge) as running, site(running) as judges:
        assert (judges.at_once, judges.builds_plainly) == (2, None)
        first = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
        wait_for(lambda: judge.begun)
        hooks = EvaluationHooks(on_stage=stages.append, on_queue=places.append)
        second = aside.submit(judges.evaluate, request(source(number=1), trials=3), hooks)
        wait_for(lambda: places)
        judge.gate.set()
        assert (first.result(60).status, second.result(60).status) == (Status.PASSED, Status.PASSED)
        assert second.result().config.trials == 3
    assert places[0] == 0
    assert set(stages) <= {Stage.VERIFY}


def test_what_was_submitted_before_is_not_judged_again_and_another_result_once(tmp_path: Path) -> None:
    judge = Dated()
    with Running(tmp_path, judge) as running:
        for _ in range(2):
            with site(running) as judges:
                first = judges.evaluate(request(source()), EvaluationHooks())
        assert len(judge.begun) == 1
        for _ in range(2):
            with site(running) as judges:
                # Whoever was killed meanwhile asks for the same once more.
                second = judges.evaluate(request(source(), PROBLEM, first), EvaluationHooks())
                assert second.evaluated_at > first.evaluated_at
        assert len(judge.begun) == 2


class Dated(StandIn):
    """Judges at a time of its own."""

    def __call__(self, *arguments: Any, **named: Any) -> Evaluation:
        found = super().__call__(*arguments, **named)
        return found.model_copy(update={"evaluated_at": f"2026-01-01T00:00:0{len(self.begun)}+00:00"})


def test_neither_judging_elsewhere_nor_its_answers_need_torch(tmp_path: Path) -> None:
    script = f"""
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("no torch here")
sys.meta_path.insert(0, NoTorch())
from kernelwright.agent.evaluation import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.remote_site import RemoteSite
from kernelwright.evaluator import Candidate, EvaluationConfig, problem_from_source
problem = problem_from_source({PROBLEM.source!r}, {PROBLEM.id!r})
with RemoteSite({{sys.argv[1]: None}}, EvaluationConfig(), ["cpp"]) as judges:
    candidate = Candidate(source={source()!r}, backend="cpp")
    asked = EvaluationRequest(problem, candidate, EvaluationConfig())
    print(judges.evaluate(asked, EvaluationHooks()).status)
assert "torch" not in sys.modules and "fastapi" not in sys.modules
"""
    with Running(tmp_path, StandIn()) as running:
        done = subprocess.run(
            [sys.executable, "-c", script, running.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.stdout.strip(), done.stderr) == ("PASSED", "")


def test_a_refused_handshake_names_the_address_and_the_way_out(tmp_path: Path) -> None:
    def refused(running: Running, **options: Any) -> str:
        with pytest.raises(ConfigError) as caught, site(running, **options):
            pass
        assert running.url in str(caught.value)
        return str(caught.value)

    with Running(tmp_path / "a", StandIn(), token="right-" * 4) as running:
        running.token = "wrong-" * 4
        assert "KERNELWRIGHT_JUDGE_TOKEN" in refused(running)
        assert "wrong" not in refused(running)
    with Running(tmp_path / "b", StandIn(), facts={"evaluator_sha": "feed" * 4}) as running:
        said = refused(running)
        assert "feedfeed" in said
        assert source_sha() in said
    with Running(tmp_path / "c", StandIn(), facts={"scoring_rules": 99}) as running:
        assert "rules 99" in refused(running)
    gpu = ServedDevice(kind="cuda", name="NVIDIA H200", at_once=4)
    with Running(tmp_path / "d", StandIn(), facts={"devices": (gpu,)}) as running:
        assert "has no cpu device that is meant (it has NVIDIA H200)" in refused(running)
    small = gpu.model_copy(update={"name": "NVIDIA H100"})
    with Running(tmp_path / "e", StandIn(), facts={"devices": (gpu, small)}) as running:
        assert "chooses between them" in refused(running)


def test_settings_that_are_an_operators_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="operator decides sandbox, threads"):
        site("http://127.0.0.1:1", config=EvaluationConfig(sandbox="none", threads=3))


def test_devices_are_never_mixed_unless_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = ServedDevice(kind="cpu", name="Another CPU", at_once=1, threads=2)
    judge, stranger = StandIn(), StandIn()
    with (
        Running(tmp_path / "a", judge) as ours,
        Running(tmp_path / "b", stranger, facts={"devices": (other,)}) as theirs,
    ):
        with pytest.raises(ConfigError, match=r"not comparable.*--judge-device"), site(ours, theirs):
            pass
        with site(ours, theirs, device="another") as judges:
            assert judges.devices == {"cpu": "Another CPU"}
            judges.evaluate(request(source()), EvaluationHooks())
    assert (len(judge.begun), len(stranger.begun)) == (0, 1)
    assert f"left out: {ours.url}" in caplog.text


def test_results_of_other_devices_or_of_other_contents_are_no_scores(tmp_path: Path, make: Any) -> None:
    def judge(problem: Problem, candidate: Candidate, config: EvaluationConfig, **_: Any) -> Evaluation:
        device = "Test CPU" if "0" in candidate.source else "Another CPU"
        sha = "0" * 16 if "9" in candidate.source else source_sha()
        return evaluation(
            problem, candidate, config, Status.PASSED, environment=make.environment(device), evaluator_sha=sha
        )

    with Running(tmp_path, judge) as running, site(running) as judges:
        assert judges.evaluate(request("0"), EvaluationHooks()).status is Status.PASSED
        with pytest.raises(EvaluatorError, match="on Another CPU, others on Test CPU"):
            judges.evaluate(request("1"), EvaluationHooks())
        with pytest.raises(EvaluatorError, match="something else"):
            judges.evaluate(request("9"), EvaluationHooks())


def test_failures_are_raised_as_on_this_machine(tmp_path: Path) -> None:
    strange = problem_from_source(PROBLEM.source + "# mine\n", "mine")
    with Running(tmp_path / "a", StandIn(), allows_sources=False) as running, site(running) as judges:
        with pytest.raises(MachineError, match=f"{running.url}: no compiler here"):
            judges.evaluate(request(source("MACHINE")), EvaluationHooks())
        with pytest.raises(EvaluatorError, match="a bug"):
            judges.evaluate(request(source("CRASH")), EvaluationHooks())
        with pytest.raises(ConfigError, match="no such"):
            judges.evaluate(request(source(), shapes="no such"), EvaluationHooks())
        with pytest.raises(ProblemError, match="--allow-problem-sources"):
            judges.evaluate(request(source(), strange), EvaluationHooks())
        # The same text under another name is the same problem.
        named = PROBLEM.model_copy(update={"id": "another/name"})
        assert judges.evaluate(request(source(), named), EvaluationHooks()).problem == "another/name"
    with Running(tmp_path / "b", StandIn()) as running, site(running) as judges:
        assert judges.evaluate(request(source(), strange), EvaluationHooks()).problem_sha == strange.sha


def test_a_stopped_command_withdraws_what_is_under_way(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    judge = StandIn()
    with Running(tmp_path, judge) as running:
        with site(running) as judges:
            waiting = [
                aside.submit(judges.evaluate, request(source("GATE", number=number)), EvaluationHooks())
                for number in range(3)
            ]
            wait_for(lambda: running.desk.queued == 2)
            stop = CancelToken()
            stopped = aside.submit(
                judges.evaluate, request(source("GATE", number=9)), EvaluationHooks(stop=stop)
            )
            wait_for(lambda: running.desk.queued == 3)
            stop.set()
            with pytest.raises(Cancelled):
                stopped.result(30)
            wait_for(lambda: running.desk.queued == 2)
        for one in waiting:
            with pytest.raises(Cancelled):
                one.result(30)
        wait_for(lambda: (running.desk.queued, running.desk.running) == (0, 0))
    assert judge.ended == []


def test_who_waits_in_a_queue_may_give_up(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    def give_up(ahead: int | None) -> None:
        raise LookupError(f"{ahead} ahead")

    judge = StandIn()
    with Running(tmp_path, judge, places=1) as running, site(running) as judges:
        first = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
        wait_for(lambda: judge.begun)
        with pytest.raises(LookupError, match="0 ahead"):
            judges.evaluate(request(source("GATE", number=1)), EvaluationHooks(on_queue=give_up))
        assert running.desk.queued == 0
        second = aside.submit(judges.evaluate, request(source(number=2)), EvaluationHooks())
        wait_for(lambda: running.desk.queued)
        # The queue is full.
        with pytest.raises(LookupError, match="None ahead"):
            judges.evaluate(request(source(number=3)), EvaluationHooks(on_queue=give_up))
        judge.gate.set()
        assert {first.result(30).status, second.result(30).status} == {Status.PASSED}


def test_another_client_that_cancels_the_same_content_costs_nothing(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    judge = StandIn()
    with Running(tmp_path, judge) as running, site(running) as judges:
        ours = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
        wait_for(lambda: judge.begun)
        with site(running) as others:
            theirs = aside.submit(others.evaluate, request(source("GATE")), EvaluationHooks())
            wait_for(lambda: sum(one._held.total() for one in others._pool._services))
        with pytest.raises(Cancelled):
            theirs.result(30)
        judge.gate.set()
        assert ours.result(30).status is Status.PASSED


def test_a_service_that_ends_hands_its_queue_to_another(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    judge, other = StandIn(), StandIn()
    other.gate.set()
    with ExitStack() as stack:
        second = stack.enter_context(Running(tmp_path / "b", other))
        with Running(tmp_path / "a", judge) as first, site(first) as judges:
            running = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
            wait_for(lambda: judge.begun)
            queued = aside.submit(judges.evaluate, request(source("GATE", number=1)), EvaluationHooks())
            wait_for(lambda: first.desk.queued == 1)
            (another,) = site(second)._pool._services
            judges._pool._services.append(judges._pool._open.enter_context(another))
            first.service.end()
            assert queued.result(30).status is Status.PASSED
            judge.gate.set()
            assert running.result(30).status is Status.PASSED
    assert (judge.ended, other.ended) == ([source("GATE")], [source("GATE", number=1)])


def test_unanswered_work_of_a_killed_service_goes_to_another_and_is_not_done_twice(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    hunted = [Hunted(tmp_path / name, workers=1) for name in ("a", "b")]
    for one in hunted:
        one.folder.mkdir()
        one.start()
    try:
        urls = {f"http://127.0.0.1:{one.port}": one for one in hunted}
        tokens: dict[str, str | None] = dict.fromkeys(urls, TOKEN)
        with RemoteSite(tokens, CONFIG, ["cpp"], patience=QUICK) as judges:
            found = aside.submit(judges.evaluate, request(source(seconds=3.0)), EvaluationHooks())
            wait_for(lambda: any(one.journal.exists() for one in hunted))
            victim = next(one for one in hunted if one.journal.exists())
            survivor = next(one for one in hunted if one is not victim)
            victim.kill()
            assert found.result(60).status is Status.PASSED
            assert survivor.ended() == 1
            victim.start()
            wait_for(lambda: not any(one.trouble for one in judges._pool._services))
        # What it had begun was withdrawn before it could end.
        assert victim.ended() == 0
        # One alone is waited for, and what it knows is not asked again.
        url = f"http://127.0.0.1:{survivor.port}"
        with RemoteSite({url: TOKEN}, CONFIG, ["cpp"], patience=QUICK) as judges:
            late = aside.submit(judges.evaluate, request(source(seconds=1.0, number=1)), EvaluationHooks())
            wait_for(lambda: survivor.journal.read_text().count("begun") == 2)
            survivor.kill()
            time.sleep(1.5)
            survivor.start()
            assert late.result(60).status is Status.PASSED
        assert survivor.ended() == 2
    finally:
        for one in hunted:
            one.kill()


@contextmanager
def dying(served: list[str]) -> Iterator[str]:
    """A service that accepts an evaluation and is never heard of again, until it is met anew."""
    facts = facts_of(CONFIG, ["cpu"], [PROBLEM], takes_sources=True).model_dump(mode="json")
    accepted = {
        "id": "a" * 64,
        "state": "running",
        "stage": None,
        "ahead": None,
        "closing": False,
        "results": [],
    }

    def answer(question: HttpRequest) -> HttpResponse:
        if question.path == "/v1/service":
            return HttpResponse(body=facts)
        if question.method == "POST":
            served.append(server.url)
            return HttpResponse(body=accepted)
        raise HttpFailure(502, "no one behind")

    server = LoopbackServer(answer, host="127.0.0.1", port=0)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def test_a_candidate_that_takes_one_service_after_the_other_down_is_not_judged() -> None:
    served: list[str] = []
    with ExitStack() as stack:
        urls = [stack.enter_context(dying(served)) for _ in range(4)]
        judges = stack.enter_context(site(*urls, patience=HASTY))
        with pytest.raises(MachineError, match="not evaluated"):
            judges.evaluate(request(source()), EvaluationHooks())
    assert len(served) == len(set(served)) == 3


def test_nobody_there_is_said_with_every_address(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9"
    with pytest.raises(MachineError, match=rf"no judge answers \({gone}.*--judge"), site(gone):
        pass
    with Running(tmp_path, StandIn()) as running, site(gone, running) as judges:
        assert judges.evaluate(request(source()), EvaluationHooks()).status is Status.PASSED
    assert "the others evaluate meanwhile" in caplog.text


def test_a_patient_client_heeds_what_a_busy_service_asks_for() -> None:
    facts = facts_of(CONFIG, ["cpu"], [PROBLEM], takes_sources=True).model_dump(mode="json")
    asked: list[float] = []
    told = threading.Event()

    def answer(question: HttpRequest) -> HttpResponse:
        if question.path == "/v1/service":
            return HttpResponse(body=facts)
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise HttpFailure(429, "the queue is full", retry_after_s=2)
        done = evaluation(PROBLEM, Candidate(source=source(), backend="cpp"), CONFIG, Status.PASSED)
        ended = {
            "id": "a" * 64,
            "state": "finished",
            "results": [],
            "evaluation": done.model_dump(mode="json"),
        }
        return HttpResponse(body=ended)

    server = LoopbackServer(answer, host="127.0.0.1", port=0)
    server.start()
    try:
        with site(server.url, patience=Patience(lost_s=30.0)) as judges:
            judges.evaluate(request(source()), EvaluationHooks(on_queue=lambda _: told.set()))
    finally:
        server.stop()
    assert asked[1] - asked[0] >= 2
