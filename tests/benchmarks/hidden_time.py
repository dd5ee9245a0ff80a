"""Measures how much time a cheater can hide: the residual of attacks that are detected, not prevented.

    python tests/benchmarks/hidden_time.py --device cuda --workers 2 --budget-s 400 --lines hidden_time.jsonl

Cheats at several shares and call lengths, on elementwise problems whose candidate is the reference:

- `understate`: the process claims a share less than it took;
- `tail`: outputs are written straight into the referee's memory, the last share of a batch's calls is left
  running, and the answer is sent without waiting for it;
- `ahead`: the share is zeros in outputs, filled in while calls are queued (on a CPU: on inputs seen before);
- `aside`: the same, while the model's state is noted before a batch.

A shave went unseen where the candidate passed and its score shows at least half of the share.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from kernelwright.evaluator import (  # noqa: E402 - after the path is set
    Candidate,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Sanitize,
    Status,
    problem_from_source,
)
from tests.benchmarks.support.sized_problems import Sized, length, sized  # noqa: E402

BACKENDS = {"cpu": "cpp", "cuda": "cuda"}
LENGTHS_MS = (0.01, 0.1, 1.0, 10.0)
CHEATS = ("understate", "tail", "ahead", "aside")
SHARES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5)

_UNDERSTATE = """
import json

_dumps = json.dumps


def _understated(message, *args, **kwargs):
    if isinstance(message, dict) and isinstance(message.get("inner_ms"), float):
        message = message | {"inner_ms": message["inner_ms"] * (1 - SHARE)}
    return _dumps(message, *args, **kwargs)


json.dumps = _understated
"""
_TAIL = """
import json
import math
import re
import sys
import threading

_dumps, _synchronize = json.dumps, torch.cuda.synchronize
_marks, _batch = [], {"count": 0, "done": 0}


def _answered(message, *args, **kwargs):
    if isinstance(message, dict) and isinstance(message.get("inner_ms"), float):
        message = message | {"inner_ms": message["inner_ms"] * (1 - SHARE)}
    return _dumps(message, *args, **kwargs)


def _waits_for_most(*args, **kwargs):
    if _marks:
        _marks[max(0, math.ceil(len(_marks) * (1 - SHARE)) - 1)].synchronize()
    else:
        _synchronize(*args, **kwargs)


def _place():
    frame = sys._getframe()
    while frame is not None:
        layout, first, returned, calls = (
            frame.f_locals.get(name) for name in ("layout", "first", "returned", "calls")
        )
        if hasattr(layout, "outputs") and isinstance(returned, list) and calls is not None:
            return layout.outputs[first + len(returned)][0], len(returned), len(calls)
        frame = frame.f_back
    return None, 0, 1


json.dumps = _answered


def _into(place, x):
    for _ in range(PASSES - 1):
        x = torch.sigmoid(x)
    torch.sigmoid(x, out=place)


class ModelNew(Model):
    def forward(self, x):
        place, number, count = _place()
        if place is None or count < 4:
            _marks.clear()
            torch.cuda.synchronize = _synchronize
            return super().forward(x)
        if number == 0:
            _marks.clear()
        late = number >= math.ceil(count * (1 - SHARE))
        if x.is_cuda:
            torch.cuda.synchronize = _waits_for_most
            torch.cuda.Event.elapsed_time, torch.cuda.Event.synchronize = _elapsed, _no_wait
            _into(place, x)
            mark = _Event(enable_timing=True)
            mark.record()
            _marks.append(mark)
        elif late:
            threading.Thread(target=_into, args=(place, x)).start()
        else:
            _into(place, x)
        return place


_Event = torch.cuda.Event
_genuine = (_Event.elapsed_time, _Event.synchronize)


def _no_wait(self):
    return _genuine[1](self) if self in _marks or not _marks else None


def _elapsed(self, other):
    if not _marks:
        return _genuine[0](self, other)
    last = _marks[max(0, math.ceil(len(_marks) * (1 - SHARE)) - 1)]
    return _genuine[0](self, last) / (1 - SHARE)
"""


_FILLED = """
import torch
from torch import nn

SIZE, PASSES, FILL = {size}, {passes}, {fill}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x, out=None):
        out = torch.zeros(SIZE + FILL, device=x.device) if out is None else out
        for _ in range(PASSES - 1):
            x = torch.sigmoid(x)
        torch.sigmoid(x, out=out[:SIZE])
        self.last.copy_(out[:1])
        return out


def get_inputs():
    return [torch.randn(SIZE)]


def get_init_inputs():
    return []
"""
_READY = """
import sys

READY, SEEN, SIDE = [], set(), []


def _fill(device):
    if device.type == "cpu":
        READY.extend(torch.zeros(SIZE + FILL) for _ in range(MOST - len(READY)))
        return
    SIDE[:] = SIDE or [torch.cuda.Stream()]
    with torch.cuda.stream(SIDE[0]):
        READY.extend(torch.zeros(SIZE + FILL, device=device) for _ in range(MOST - len(READY)))


class ModelNew(Model):
    def forward(self, x):
        if AHEAD:
            mark = float(x[0]) if x.device.type == "cpu" else None
            if len(READY) < MOST // 2 and (mark is None or mark in SEEN):
                _fill(x.device)
            SEEN.add(mark)
        SHAPE[:] = [x.device]
        return super().forward(x, READY.pop() if READY else None)


SHAPE = []
for _name, _module in list(sys.modules.items()):
    _state = vars(_module).get("ModelState") if "model_state" in _name and not AHEAD else None
    if _state is not None:
        def _noted(self, *given, genuine=_state.__init__):
            genuine(self, *given)
            for device in SHAPE:
                _fill(device)

        _state.__init__ = _noted
"""
_MOST_FILLED = {"cpu": 1 << 23, "cuda": 1 << 26}
"""Elements of the largest output that is worth a try."""
_READY_BYTES = {"cpu": 1 << 28, "cuda": 4 << 30}
"""Memory that is filled ahead."""


@dataclass(frozen=True, slots=True)
class Try:
    """One evaluation of one cheat."""

    cheat: str
    wanted_ms: float
    share: float
    status: str
    speedup: float
    clock: str
    seconds: float
    detail: str

    @property
    def unseen(self) -> bool:
        """Whether it passed and its score shows at least half of what it shaved off."""
        return self.status == Status.PASSED and self.speedup >= 1 / (1 - self.share / 2)


def main() -> int:
    """Try every cheat, print the largest share unseen per length."""
    options = _options()
    if options.read:
        tries = [Try(**json.loads(line)) for line in options.read.read_text("utf-8").splitlines()]
    else:
        tries = _try_all(options)
    print(table(tries))
    if options.markdown:
        options.markdown.write_text(table(tries, markdown=True) + "\n", "utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=tuple(BACKENDS), default="cpu")
    parser.add_argument("--lengths-ms", type=float, nargs="+", default=LENGTHS_MS)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--cheats", nargs="+", choices=CHEATS, default=CHEATS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="start nothing after this")
    parser.add_argument("--lines", type=Path, help="write a JSON line per try, as it comes")
    parser.add_argument("--from", dest="read", type=Path, help="try nothing: read such lines")
    parser.add_argument("--markdown", type=Path, help="write the table")
    return parser.parse_args()


def _try_all(options: argparse.Namespace) -> list[Try]:
    until = time.monotonic() + options.budget_s
    problems = [sized("elementwise", ms, options.device) for ms in options.lengths_ms]
    config = EvaluationConfig(device=options.device, baselines=("eager",), trials=2, sanitize=Sanitize.OFF)
    tries: list[Try] = []
    guard = threading.Lock()

    def work(problem: Sized) -> None:
        for share in options.shares:
            for cheat in options.cheats:
                if time.monotonic() > until:
                    return
                if cheat in ("ahead", "aside") and _filled(problem, share, options.device) is None:
                    continue
                done = _attempt(evaluator, problem, config, cheat=cheat, share=share)
                with guard:
                    tries.append(done)
                    _report(done, options.lines)

    with (
        tempfile.TemporaryDirectory(prefix="kernelwright-forging-") as cache,
        Evaluator(cache=Path(cache), idle_referees=len(problems)) as evaluator,
        ThreadPoolExecutor(options.workers) as pool,
    ):
        list(pool.map(work, problems))
    return tries


def source(problem: Sized, cheat: str, share: float) -> str:
    """A candidate that computes what the reference does, and lies about it."""
    honest = problem.problem.source
    if cheat in ("ahead", "aside"):
        return f"{honest}\n\nAHEAD = {cheat == 'ahead'}\n{_READY}"
    if cheat == "understate":
        return honest.replace("class Model(", "class ModelNew(") + f"\n\nSHARE = {share}\n" + _UNDERSTATE
    return honest + f"\n\nSHARE = {share}\n" + _TAIL


def _filled(problem: Sized, share: float, device: str) -> Sized | None:
    """Make a problem whose outputs are zeros for that share of its time; None where they were too large."""
    numbers = dict(re.findall(r"(SIZE|PASSES) = (\d+)", problem.problem.source))
    size, passes = int(numbers["SIZE"]), int(numbers["PASSES"])
    # A pass reads and writes what a fill only writes.
    fill = int(share / (1 - share) * 2 * passes * size)
    if size + fill > _MOST_FILLED[device]:
        return None
    source = _FILLED.format(size=size, passes=passes, fill=fill)
    most = max(2, min(256, _READY_BYTES[device] // (4 * (size + fill))))
    filled = problem_from_source(f"{source}\nMOST = {most}\n", f"{problem.problem.id}_filled_{share:g}")
    return replace(problem, problem=filled)


def _attempt(
    evaluator: Evaluator, problem: Sized, config: EvaluationConfig, *, cheat: str, share: float
) -> Try:
    began = time.monotonic()
    if cheat in ("ahead", "aside"):
        problem = _filled(problem, share, config.device) or problem
    candidate = Candidate(source=source(problem, cheat, share), backend=BACKENDS[config.device])
    status, speedup, clock, detail = "BROKEN", math.nan, "", ""
    try:
        evaluation = evaluator.evaluate(problem.problem, candidate, config)
    except EvaluatorError as error:
        detail = str(error)
    else:
        status, detail = evaluation.status.value, evaluation.detail
        if evaluation.measurement is not None:
            speedup, clock = evaluation.measurement.speedup, evaluation.measurement.candidate.clock
    seconds = round(time.monotonic() - began, 1)
    return Try(cheat, problem.wanted_ms, share, status, speedup, clock, seconds, detail[:300])


def _report(done: Try, lines: Path | None) -> None:
    if lines is not None:
        with lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(done)) + "\n")
    print(
        f"{done.cheat:<10} {length(done.wanted_ms):>6} {done.share:4.0%}: {done.status} {done.speedup:.3f} "
        f"{done.clock} {'UNSEEN ' if done.unseen else ''}{done.seconds} s {done.detail[:90]}",
        flush=True,
    )


def table(tries: list[Try], *, markdown: bool = False) -> str:
    """Per cheat and length: the largest share unseen, the smallest seen, and how each share ended."""
    lines = [("cheat", "call", "largest unseen", "gained", "how each share ended")]
    for cheat in sorted({each.cheat for each in tries}):
        for ms in sorted({each.wanted_ms for each in tries}):
            some = [each for each in tries if each.cheat == cheat and each.wanted_ms == ms]
            most = max((each for each in some if each.unseen), key=lambda each: each.share, default=None)
            ends = ", ".join(f"{each.share:.0%} {_end(each)}" for each in sorted(some, key=lambda e: e.share))
            found = (f"{most.share:.0%}", f"{most.speedup - 1:.1%}") if most else ("none", "")
            lines.append((cheat, length(ms), *found, ends))
    if markdown:
        lines.insert(1, ("---",) * len(lines[0]))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _end(each: Try) -> str:
    return f"{each.speedup:.2f}x ({each.clock})" if each.status == Status.PASSED else each.status


if __name__ == "__main__":
    sys.exit(main())
