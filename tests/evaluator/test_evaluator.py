"""The evaluator's whole way, on real processes: what ends how, and what is measured."""

import fcntl
import os
import re
import textwrap
import threading
import time
from types import SimpleNamespace

import pytest

from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    EvaluationConfig,
    Evaluator,
    Limits,
    ProblemError,
    Stage,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.schema.errors import DeviceFull

PROBLEM = problem_from_source(
    textwrap.dedent(
        """
        import torch
        from torch import nn
        N = 256
        SHAPES = {"tiny": {"N": 64}}
        class Model(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.randn(width))
                self.shift = nn.Parameter(torch.zeros(width))
            def forward(self, x):
                return torch.relu(x * self.scale + self.shift)
        def get_inputs():
            return [torch.randn(N, 128)]
        def get_init_inputs():
            return [128]
        """
    ),
    "scale_shift_relu",
)

QUICK = EvaluationConfig(
    baselines=("eager",), target_ms=20, max_turns=4, limits=Limits(call_s=5, load_s=30, memory_gib=2)
)
UNTIMED = QUICK.model_copy(update={"measure": False})


def model(body: str, init: str = "") -> Candidate:
    source = f"""
import os, sys, time, torch
from torch import nn
class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.zeros(width))
{textwrap.indent(textwrap.dedent(init), " " * 8)}
    def forward(self, x):
{textwrap.indent(textwrap.dedent(body), " " * 8)}
"""
    return Candidate(source=source, backend="cpp")


RIGHT = model("return torch.clamp_min(torch.addcmul(self.shift, x, self.scale), 0)")


@pytest.fixture(scope="module")
def evaluator(shared_cache):
    with Evaluator(cache=shared_cache) as opened:
        yield opened


def test_a_right_candidate_passes_with_everything_measured(evaluator):
    stages = []
    evaluation = evaluator.evaluate(PROBLEM, RIGHT, QUICK, on_stage=stages.append)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.speedup is not None
    assert evaluation.speedup > 0
    measurement = evaluation.measurement
    assert measurement is not None
    assert measurement.interval.low <= measurement.speedup <= measurement.interval.high
    assert measurement.candidate.turns >= 4
    assert evaluation.verification is not None
    assert evaluation.verification.weights == "seed"
    assert evaluation.verification.parameters == "seed"
    assert stages[:2] == [Stage.SCREEN, Stage.OPEN]
    assert evaluation.device_seconds > 0.0
    assert [stage for stage in stages if stage in (Stage.LOAD, Stage.VERIFY, Stage.TIME)] == [
        Stage.LOAD,
        Stage.VERIFY,
        Stage.TIME,
    ]
    assert evaluation.environment is not None
    assert evaluation.environment.sandbox.tier != "none"
    assert re.search(r"\d+\.\d+", evaluation.environment.compiler)


@pytest.mark.parametrize("weights", ["", ", torch.randn(200)"])
def test_inputs_that_index_are_timed_too(evaluator, weights):
    """What takes the place of inputs after a timed call must be as valid: a call left running reads them."""
    body = "table.index_select(0, rows) if not scale else table[rows] * scale[0][rows, None]"
    source = f"""
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(200, 32))
    def forward(self, rows, *scale):
        table = self.table
        return {body}
def get_inputs():
    return [torch.randint(0, 200, (64,)){weights}]
def get_init_inputs():
    return []
"""
    problem = problem_from_source(source, "lookup")
    candidate = Candidate(source=source.replace("class Model(", "class ModelNew("), backend="cpp")
    evaluation = evaluator.evaluate(problem, candidate, QUICK)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.speedup is not None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return torch.zeros_like(x)", Status.WRONG_VALUES),
        ("return x.mul_(self.scale).add_(self.shift).relu_()", Status.INPUT_MUTATED),
        ("raise ValueError('no')", Status.RUNTIME_ERROR),
        ("os._exit(0)", Status.RUNTIME_ERROR),
        ("os.kill(os.getpid(), 11)", Status.RUNTIME_ERROR),
        ("while True: pass", Status.TIMED_OUT),
        ("keep = [bytearray(1 << 28) for _ in range(16)]; return x", Status.OUT_OF_MEMORY),
    ],
)
def test_every_way_to_fail_has_its_status(evaluator, body, status):
    # Only one who never ends is to run out of time: filling memory takes long on a busy machine.
    limits = UNTIMED.limits.model_copy(update={"call_s": 5.0 if status is Status.TIMED_OUT else 60.0})
    evaluation = evaluator.evaluate(PROBLEM, model(body), UNTIMED.model_copy(update={"limits": limits}))
    assert evaluation.status is status, evaluation.detail
    assert evaluation.speedup is None


def test_the_next_candidate_is_judged_normally_after_all_that(evaluator):
    assert evaluator.evaluate(PROBLEM, RIGHT, UNTIMED).status is Status.PASSED


def test_forged_answers_on_every_descriptor_prove_nothing(evaluator):
    forge = """
    for fd in range(3, 40):
        try:
            os.write(fd, b'{"op": "ran", "inner_ms": 0.001, "places": ""}\\n')
        except OSError:
            pass
    print('{"status": "PASSED", "speedup": 1000}')
    return torch.empty_like(x)
    """
    evaluation = evaluator.evaluate(PROBLEM, model(forge), UNTIMED)
    assert evaluation.status in (Status.WRONG_VALUES, Status.TAMPERED, Status.INPUT_MUTATED)


def test_keys_of_the_host_are_not_in_the_candidates_environment(evaluator, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    body = "raise ValueError(repr(dict(os.environ)))"
    evaluation = evaluator.evaluate(PROBLEM, model(body), UNTIMED)
    assert evaluation.status is Status.RUNTIME_ERROR
    assert "sk-canary" not in evaluation.model_dump_json()


def test_a_broken_candidate_never_reaches_a_machine(evaluator):
    evaluation = evaluator.evaluate(PROBLEM, Candidate(source="def (", backend="cpp"), UNTIMED)
    assert evaluation.status is Status.REJECTED
    assert evaluation.stage is Stage.SCREEN
    assert evaluation.environment is None


def test_bad_requests_are_errors_and_not_scores(evaluator):
    with pytest.raises(ConfigError, match="tiny"):
        evaluator.evaluate(PROBLEM, RIGHT, UNTIMED.model_copy(update={"shapes": "huge"}))
    with pytest.raises(ConfigError, match="fortran"):
        evaluator.evaluate(PROBLEM, RIGHT.model_copy(update={"backend": "fortran"}), UNTIMED)
    broken = problem_from_source(
        "import torch\nclass Model(torch.nn.Module): pass\ndef get_inputs(): raise OSError('gone')", "broken"
    )
    with pytest.raises(ProblemError, match="gone"):
        evaluator.evaluate(broken, RIGHT, UNTIMED)


def test_a_device_without_room_is_said_to_be_full(evaluator):
    body = "class Model(torch.nn.Module):\n    def forward(self, x): raise torch.OutOfMemoryError('no')\n"
    full = problem_from_source(f"import torch\n{body}def get_inputs(): return [torch.rand(2)]", "full")
    with pytest.raises(DeviceFull, match="choose smaller --shapes"):
        evaluator.evaluate(full, RIGHT, UNTIMED)


def test_named_shapes_change_the_problem(evaluator):
    tiny = UNTIMED.model_copy(update={"shapes": "tiny"})
    body = "assert x.shape[0] == 64; return torch.relu(x * self.scale + self.shift)"
    assert evaluator.evaluate(PROBLEM, model(body), tiny).status is Status.PASSED


def test_a_sleeping_candidate_cannot_outlive_its_evaluation(evaluator):
    config = UNTIMED.model_copy(update={"limits": Limits(call_s=60, total_s=4)})
    evaluation = evaluator.evaluate(
        PROBLEM, model("time.sleep(1.5); return torch.relu(x * self.scale + self.shift)"), config
    )
    assert evaluation.status is Status.TIMED_OUT


ENDLESS_BUILDS = """
from torch.utils.cpp_extension import load_inline
MODULE = "#include <Python.h>\\nstatic PyModuleDef d = {PyModuleDef_HEAD_INIT, \\"ext\\", 0, -1};"
MODULE += "PyMODINIT_FUNC PyInit_ext() { return PyModule_Create(&d); }"
while True:
    load_inline("ext", MODULE, no_implicit_headers=True)
class ModelNew:
    pass
"""


def test_building_the_same_for_ever_is_no_way_to_stay_alive(evaluator):
    limits = UNTIMED.limits.model_copy(update={"load_s": 4.0})
    config = UNTIMED.model_copy(update={"limits": limits})
    evaluation = evaluator.evaluate(PROBLEM, Candidate(source=ENDLESS_BUILDS, backend="cpp"), config)
    assert evaluation.status is Status.TIMED_OUT, evaluation.detail
    assert [build.ok for build in evaluation.builds] == [True]


def test_a_candidate_that_dies_at_another_size_has_passed(evaluator):
    candidate = model("x.shape[0] == 256 or os._exit(0)\nreturn torch.relu(x * self.scale + self.shift)")
    evaluation = evaluator.evaluate(PROBLEM, candidate, UNTIMED)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.verification.other_sizes["tiny"] is Status.RUNTIME_ERROR
    assert evaluation.verification.shape_specialized is True


def test_who_waits_to_time_goes_before_the_rest_of_an_evaluation_that_has_timed(
    shared_cache, tmp_path, monkeypatch
):
    # With locks of its own: other tests wait for the machine's, too, and may go first.
    monkeypatch.setattr(
        "kernelwright.evaluator.host.file_lock.tempfile", SimpleNamespace(gettempdir=lambda: str(tmp_path))
    )
    taken, over = threading.Event(), threading.Event()
    went_first = []

    def held_alone():
        with (tmp_path / f"kernelwright-{os.geteuid()}" / "cpu.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def time_another():
        lease = DeviceLock("cpu")
        while not over.is_set() and not held_alone():
            time.sleep(0.005)
        lease.hold_alone()
        taken.set()
        lease.close()

    def on_stage(stage):
        if stage is Stage.TIME:
            waiter.start()
        if stage is Stage.DECIDE:
            went_first.append(taken.is_set())

    waiter = threading.Thread(target=time_another)
    with Evaluator(cache=shared_cache) as evaluator:
        assert evaluator.evaluate(PROBLEM, RIGHT, QUICK, on_stage=on_stage).status is Status.PASSED
    over.set()
    waiter.join()
    assert went_first == [True]


def test_who_sanitizes_is_counted_among_those_that_use_the_device(shared_cache):
    """Else another would have the device for itself beside it."""
    broken = problem_from_source(PROBLEM.source.replace("self.scale +", "self.scale @ x @"), "broken")
    seen = []
    with Evaluator(cache=shared_cache) as evaluator:
        evaluator._devices.enter(["cpu"], warm=lambda device: False, stop=CancelToken())

        def watch():
            while not over.wait(0.01):
                seen.append(evaluator._devices.is_shared("cpu"))

        over, watcher = threading.Event(), threading.Thread(target=watch)
        watcher.start()
        with pytest.raises(ProblemError):
            evaluator.sanitize(broken, RIGHT, UNTIMED)
        over.set()
        watcher.join()
        assert any(seen)
        assert not evaluator._devices.is_shared("cpu")


def test_a_large_block_comes_from_memory_that_is_kept(evaluator):
    first_block = """
    import ctypes
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_size_t
    block = libc.malloc(ctypes.c_size_t(24 << 20))
    size_and_flags = ctypes.c_size_t.from_address(block - 8).value
    print("a mapping of its own" if size_and_flags & 2 else "the heap")
    """
    evaluation = evaluator.evaluate(
        PROBLEM, model("return torch.relu(x * self.scale + self.shift)", first_block), UNTIMED
    )
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert set(evaluation.output_tail.splitlines()) == {"the heap"}


def test_nothing_of_ours_is_shown_as_what_the_candidate_printed(evaluator):
    evaluation = evaluator.evaluate(PROBLEM, model("return x"), UNTIMED)
    assert evaluation.status is Status.WRONG_VALUES
    assert evaluation.output_tail == ""


def test_a_pause_while_another_times_counts_against_nobody(shared_cache, tmp_path, monkeypatch):
    # As on a GPU: whatever shares the device is stopped in mid-work.
    monkeypatch.setattr(
        "kernelwright.evaluator.host.file_lock.tempfile", SimpleNamespace(gettempdir=lambda: str(tmp_path))
    )
    for module in ("referee_client", "processes.process_launcher"):
        monkeypatch.setattr(f"kernelwright.evaluator.driver.{module}.can_pause_on", lambda device: True)
    over = threading.Event()
    paused = []

    def time_others():
        lock = DeviceLock("cpu")
        while not over.wait(0.2):
            began = time.monotonic()
            lock.hold_alone()
            time.sleep(0.8)
            paused.append(time.monotonic() - began)
            lock.release()
        lock.close()

    other = threading.Thread(target=time_others)
    limits = Limits(call_s=2.0, load_s=30, memory_gib=2)
    slow = model("time.sleep(0.7)\nreturn torch.relu(x * self.scale + self.shift)")
    with Evaluator(cache=shared_cache) as evaluator:
        other.start()
        found = [
            evaluator.evaluate(PROBLEM, candidate, UNTIMED.model_copy(update={"limits": limits, "trials": 2}))
            for candidate in (slow, model("time.sleep(60)"))
        ]
    over.set()
    other.join()
    assert [each.status for each in found] == [Status.PASSED, Status.TIMED_OUT], found[0].detail
    assert len(paused) > 2
