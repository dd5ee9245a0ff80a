"""Are 10,000 evaluations by judges elsewhere neither lost nor doubled, and what do they cost on the way?

Services in processes of their own answer over HTTP, with a stand-in for the evaluator that needs no time:
what is measured is the way there and back. With --kill one of them is killed in the middle and started again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / ".ci" / "src")]

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest  # noqa: E402
from kernelwright.agent.evaluation.remote_site import RemoteSite  # noqa: E402
from kernelwright.evaluator import Candidate, EvaluationConfig  # noqa: E402
from tests.agent.service.standin import PROBLEM, TOKEN, source  # noqa: E402
from tests.agent.service.test_load import Hunted  # noqa: E402


def resident_mib() -> float:
    """Memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


class Load:
    """Submits every candidate once, many at a time."""

    def __init__(self, judges: RemoteSite, count: int) -> None:
        self._judges = judges
        self.answers: Counter[str] = Counter()
        """Results by the candidate they speak of."""
        self.seconds: list[float] = []
        self.memory_mib: list[float] = []
        self._guard = threading.Lock()
        self._count = count

    def evaluate(self, number: int) -> None:
        """Evaluate one candidate; the stand-in returns its text with the result."""
        text = source(number=number)
        request = EvaluationRequest(PROBLEM, Candidate(source=text, backend="cpp"), EvaluationConfig())
        begun = time.monotonic()
        found = self._judges.evaluate(request, EvaluationHooks())
        with self._guard:
            self.seconds.append(time.monotonic() - begun)
            self.answers[found.output_tail] += found.output_tail == text
            if len(self.seconds) % max(1, self._count // 10) == 0:
                self.memory_mib.append(resident_mib())


def main() -> None:
    """Run the load and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--services", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4, help="of each service")
    parser.add_argument(
        "--kill", action="store_true", help="kill a service in the middle, and start it again"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    services = [Hunted(folder / str(number), given.workers) for number in range(given.services)]
    try:
        for service in services:
            service.folder.mkdir()
            service.start()
        run(services, given)
    finally:
        for service in services:
            service.kill()
        shutil.rmtree(folder, ignore_errors=True)


def run(services: list[Hunted], given: argparse.Namespace) -> None:
    tokens: dict[str, str | None] = {f"http://127.0.0.1:{one.port}": TOKEN for one in services}
    with RemoteSite(tokens, EvaluationConfig(), ["cpp"]) as judges:
        load = Load(judges, given.submissions)
        begun = time.monotonic()
        with ThreadPoolExecutor(given.concurrency) as threads:
            under_way = [threads.submit(load.evaluate, number) for number in range(given.submissions)]
            if given.kill:
                while len(load.seconds) < given.submissions // 2:
                    time.sleep(0.01)
                services[0].kill()
                services[0].start()
            for one in under_way:
                one.result()
        seconds = time.monotonic() - begun
    journals = Counter(line for one in services for line in one.journal.read_text().splitlines())
    ended = {line: count for line, count in journals.items() if line.startswith("ended ")}
    times = sorted(load.seconds)
    print(f"answers    {len(load.answers)} of {given.submissions}, {max(load.answers.values())} each")
    print(f"evaluated  {len(ended)} contents, {sum(ended.values()) - len(ended)} of them again")
    print(f"rate       {given.submissions / seconds:.0f} a second")
    print(f"latency    median {times[len(times) // 2]:.2f} s, 99 % {times[len(times) * 99 // 100]:.2f} s")
    print(f"memory     {load.memory_mib[0]:.0f} to {load.memory_mib[-1]:.0f} MiB of the client")
    print(f"           {', '.join(f'{one.resident_mib():.0f}' for one in services)} MiB of the services")


if __name__ == "__main__":
    main()
