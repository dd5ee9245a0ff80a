"""Many clients, one of them the reaper: whatever was accepted is judged, and recorded once."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelwright.agent.evaluation.service_client import ServiceClient
from kernelwright.agent.service.policy import RequestBounds
from kernelwright.agent.service.store import Store
from kernelwright.evaluator import Candidate, Evaluation, Status
from tests.agent.service.standin import PROBLEM, TOKEN, Running, StandIn, source

LARGEST = RequestBounds().body_bytes
ROOT = Path(__file__).parents[3]


@dataclass
class Hunted:
    """A service in a process of its own that is killed and started again, behind one address."""

    folder: Path
    workers: int
    port: int = 0
    process: subprocess.Popen[str] | None = None
    started: list[int] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        return self.folder / "journal.txt"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.agent.service.standin"]
        arguments = [str(self.folder / "state"), str(self.journal), str(self.workers), str(self.port)]
        self.process = subprocess.Popen([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        url = self.process.stdout.readline()
        self.port = int(re.findall(r":(\d+)", url)[0])
        self.started.append(self.process.pid)

    def kill(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def resident_mib(self) -> float:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def ended(self) -> int:
        return self.journal.read_text().count("ended ") if self.journal.exists() else 0


class Intruders:
    """Clients without the token, and clients with bodies beyond the limit, as long as the storm lasts."""

    def __init__(self, port: int) -> None:
        self.answers: Counter[int] = Counter()
        self._port = port
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._intrude, args=(headers, body))
            for headers, body in (
                ({"Authorization": "Bearer wrong"}, b"{}"),
                ({}, b"{}"),
                ({"Authorization": f"Bearer {TOKEN}"}, b" " * (LARGEST + 1)),
            )
        ]

    def __enter__(self) -> Intruders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _intrude(self, headers: dict[str, str], body: bytes) -> None:
        while not self._over.wait(0.02):
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            # Between a kill and the next start nobody answers, or not to the end.
            with suppress(OSError, http.client.HTTPException):
                connection.request(
                    "POST", "/v1/evaluations", body, {"Content-Type": "application/json", **headers}
                )
                self.answers[connection.getresponse().status] += 1
            connection.close()


def hunt(folder: Path, *, clients: int, evaluations: int, kills: int) -> Hunted:
    """Have every evaluation asked for by three of many clients while the service is killed now and then."""
    hunted = Hunted(folder, workers=4)
    hunted.start()
    client = ServiceClient(f"http://127.0.0.1:{hunted.port}", TOKEN)
    candidates = [
        Candidate(source=source(seconds=0.02, number=number), backend="cpp") for number in range(evaluations)
    ]

    def ask(turn: int) -> Evaluation:
        return client.evaluate(PROBLEM, candidates[turn % evaluations], timeout_s=300)

    try:
        with Intruders(hunted.port) as intruders, ThreadPoolExecutor(clients) as pool:
            asked = [pool.submit(ask, turn) for turn in range(3 * evaluations)]
            for kill in range(1, kills + 1):
                while hunted.ended() < evaluations * kill // (kills + 1):
                    time.sleep(0.01)
                hunted.kill()
                hunted.start()
            verdicts = [one.result() for one in asked]
    finally:
        memory_mib = hunted.resident_mib()
        hunted.kill()
    expected = Counter(candidates[turn % evaluations].sha for turn in range(3 * evaluations))
    assert Counter(verdict.candidate_sha for verdict in verdicts) == expected
    assert {verdict.status for verdict in verdicts} == {Status.PASSED}
    assert set(intruders.answers) == {401, 413}
    # An idle one holds about 60 MiB.
    assert memory_mib < 160
    print(f"intruders were told {dict(intruders.answers)}")
    print(f"{clients} clients, {evaluations} evaluations, {kills} kills: {memory_mib:.0f} MiB resident")
    return hunted


def check_nothing_was_lost_or_doubled(hunted: Hunted, evaluations: int) -> None:
    """Each evaluation was recorded once; only what a kill interrupted was begun again."""
    store = Store(hunted.folder / "state")
    assert store.unfinished() == []
    store.close()
    lines = hunted.journal.read_text().splitlines()
    begun = Counter(line.removeprefix("begun ") for line in lines if line.startswith("begun "))
    assert len(begun) == evaluations
    again = sum(begun.values()) - evaluations
    assert again <= hunted.workers * (len(hunted.started) - 1)
    print(f"begun again: {again}")


def test_a_kill_in_the_middle_loses_and_doubles_nothing(tmp_path: Path) -> None:
    hunted = hunt(tmp_path, clients=20, evaluations=60, kills=1)
    check_nothing_was_lost_or_doubled(hunted, 60)


@pytest.mark.slow
def test_two_hundred_clients_and_many_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    hunted = hunt(tmp_path, clients=200, evaluations=1000, kills=8)
    check_nothing_was_lost_or_doubled(hunted, 1000)


@pytest.mark.slow
def test_memory_stays_bounded_over_many_large_verdicts(tmp_path: Path) -> None:
    hunted = Hunted(tmp_path, workers=4)
    hunted.start()
    client = ServiceClient(f"http://127.0.0.1:{hunted.port}", TOKEN)
    # 40 kB of source and as much of verdict each.
    padding = f"{' ' * 40_000}"
    held: list[float] = []

    def ask(number: int) -> Status:
        candidate = Candidate(source=source(number=number).replace("(", f"({padding}", 1), backend="cpp")
        return client.evaluate(PROBLEM, candidate, timeout_s=300).status

    try:
        with ThreadPoolExecutor(50) as pool:
            for batch in range(4):
                numbers = range(1000 * batch, 1000 * (batch + 1))
                assert set(pool.map(ask, numbers)) == {Status.PASSED}
                held.append(hunted.resident_mib())
    finally:
        hunted.kill()
    print("resident after each thousand:", [f"{mib:.0f} MiB" for mib in held])
    # What 3000 further ones hold together is 240 MB.
    assert held[-1] - held[0] < 40


def test_bodies_that_arrive_at_once_do_not_fill_the_memory(tmp_path: Path) -> None:
    bounds = RequestBounds(body_bytes=200_000, held_bytes=400_000, body_s=20.0)
    with Running(tmp_path, StandIn(), front={"bounds": bounds}) as running:
        gate = threading.Event()
        statuses: list[int] = []

        def dribble() -> None:
            def pieces() -> object:
                yield b"x" * 150_000
                gate.wait(30)
                yield b"x"

            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
            connection.request("POST", "/v1/evaluations", pieces(), {"Content-Type": "application/json"})
            statuses.append(connection.getresponse().status)
            connection.close()

        callers = [threading.Thread(target=dribble) for _ in range(6)]
        for caller in callers:
            caller.start()
        refused = re.compile(rb'kernelwright_answers_total\{code="429"\} ([0-9.]+)')
        # Two bodies of six fit: the gate opens when the four others have been turned away.
        while not (found := refused.search(running.desk.measures.text())) or float(found[1]) < 4:
            time.sleep(0.01)
        gate.set()
        for caller in callers:
            caller.join(30)
    assert Counter(statuses).keys() <= {422, 429}
    assert statuses.count(429) >= 4
