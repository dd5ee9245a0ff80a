"""Programs forked from an interpreter that has imported modules, and what becomes of that interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import Bind, Launcher, SandboxedProcess, SandboxPolicy, probe
from kernelwright.evaluator.sandbox.process.fork_servers import SERVER
from kernelwright.evaluator.sandbox.process.process_tree import read_process

if TYPE_CHECKING:
    from collections.abc import Iterator

PRELOAD = ("fractions", "json.tool")
_EARLIER: set[int] = set()
IMPORTED = f"import sys; print([name for name in {PRELOAD} if name in sys.modules])"


@pytest.fixture
def policy() -> SandboxPolicy:
    tier = SandboxTier.BUBBLEWRAP
    if not probe().tiers[tier].works:
        pytest.skip(probe().tiers[tier].reason)
    return SandboxPolicy(
        tier=tier,
        memory_bytes=1 << 28,
        processes=24,
        file_bytes=1 << 20,
        scratch_bytes=1 << 20,
        environment={},
    )


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


def _start(
    launcher: Launcher, policy: SandboxPolicy, code: str, *arguments: str, preload: tuple[str, ...] = PRELOAD
) -> SandboxedProcess:
    return launcher.start((sys.executable, "-I", "-c", code, *arguments), policy, preload=preload)


def _output(running: SandboxedProcess) -> str:
    assert running.wait(60)
    return running.output().strip()


@pytest.fixture(autouse=True)
def earlier() -> Iterator[None]:
    """Forget the fork servers of other launchers of this process."""
    _EARLIER.update(_servers())
    yield
    _EARLIER.clear()


def _servers() -> list[int]:
    """Fork servers below this process that a test began."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (process := read_process(int(folder.name))):
            words = (folder / "cmdline").read_bytes().split(b"\0") if not process.is_dead else []
            if process.parent == os.getpid() and os.fsencode(SERVER) in words:
                found.append(process.pid)
    return [pid for pid in found if pid not in _EARLIER]


def test_a_program_finds_its_modules_imported_and_its_own_arguments(
    launcher: Launcher, policy: SandboxPolicy
) -> None:
    assert _output(_start(launcher, policy, IMPORTED)) == str(list(PRELOAD))
    assert _output(_start(launcher, policy, IMPORTED, preload=())) == "[]"
    code = "import sys; print(sys.argv, __name__, sorted(vars()), len(sys.modules['__main__'].__dict__) < 12)"
    forked, executed = (
        _output(_start(launcher, policy, code, "x", "y z", preload=preload)) for preload in (PRELOAD, ())
    )
    assert forked.startswith("['-c', 'x', 'y z'] __main__")
    assert forked.endswith("True") and executed.endswith("True")


def test_nothing_of_one_program_reaches_the_next(launcher: Launcher, policy: SandboxPolicy) -> None:
    code = """
import builtins, fractions, os
print(hasattr(fractions, "left"), os.environ.get("LEFT"), os.path.exists("/tmp/left"))
fractions.left = builtins.left = 1
os.environ["LEFT"] = "1"
open("/tmp/left", "w")
"""
    for _ in range(2):
        assert _output(_start(launcher, policy, code)) == "False None False"


def test_each_environment_is_exact(launcher: Launcher, policy: SandboxPolicy) -> None:
    code = "import os; print(dict(os.environ))"
    for device in ("0", "1"):
        environment = {"LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": device}
        assert _output(_start(launcher, replace(policy, environment=environment), code)) == str(environment)
    assert len(_servers()) == 1
    other = {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "3"}
    assert _output(_start(launcher, replace(policy, environment=other), code)) == str(other)
    assert len(_servers()) == 2


def test_errors_end_a_program_as_they_do_elsewhere(launcher: Launcher, policy: SandboxPolicy) -> None:
    failing = _start(
        launcher, policy, "import atexit; atexit.register(print, 'last'); raise ValueError('no')"
    )
    ended = failing.wait(60)
    assert ended and ended.returncode == 1
    assert "ValueError: no" in failing.output()
    assert "last" in failing.output()
    ended = _start(launcher, policy, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").wait(60)
    assert ended and ended.signal == signal.SIGSEGV


def test_modules_that_cannot_be_imported_keep_no_program_from_running(
    launcher: Launcher, policy: SandboxPolicy
) -> None:
    assert _output(_start(launcher, policy, "print('fine')", preload=("no_such_module",))) == "fine"
    assert _output(_start(launcher, policy, "print('fine')", preload=("no_such_module",))) == "fine"


@pytest.mark.parametrize("refuses", [False, True])
def test_nothing_is_forked_where_it_could_not_use_a_gpu(
    launcher: Launcher, policy: SandboxPolicy, tmp_path: Path, refuses: bool
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "torch.py").write_text(
        f"class _C:\n    _cuda_isInBadFork = staticmethod(lambda: {refuses})\n"
        "class default_generator:\n    seed = staticmethod(lambda: 0)\n"
    )
    environment = {"LANG": "C.UTF-8", "PYTHONPATH": str(tmp_path)}
    policy = replace(policy, environment=environment, binds=(*policy.binds, Bind(tmp_path, tmp_path)))
    argv = (sys.executable, "-P", "-c", "import sys; print('torch' in sys.modules)")
    for _ in range(2):
        assert _output(launcher.start(argv, policy, preload=("torch",))) == str(not refuses)


def test_a_killed_server_keeps_no_program_from_running(launcher: Launcher, policy: SandboxPolicy) -> None:
    running = _start(launcher, policy, "import time; time.sleep(60)")
    (server,) = _servers()
    os.kill(server, signal.SIGKILL)
    ended = running.wait(60)
    assert ended and ended.reason  # what it forked goes with it, and says so
    while server in _servers():
        time.sleep(0.01)
    assert _output(_start(launcher, policy, IMPORTED)) == str(list(PRELOAD))


def test_a_server_that_hangs_keeps_no_launcher_from_closing(
    launcher: Launcher, policy: SandboxPolicy
) -> None:
    _output(_start(launcher, policy, "print('fine')"))
    (server,) = _servers()
    os.kill(server, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(_start, launcher, policy, "print('fine')")
        time.sleep(0.5)
        began = time.monotonic()
        launcher.close()
        assert starting.result().wait(0)
    assert time.monotonic() - began < 30
    assert _servers() == []


def test_a_program_that_ends_while_it_is_frozen_can_be_removed(
    launcher: Launcher, policy: SandboxPolicy
) -> None:
    running = _start(launcher, policy, "import time; time.sleep(60)")
    running.freeze()
    os.kill(running.pid, signal.SIGKILL)
    time.sleep(0.2)
    running.thaw()
    assert running.kill().signal == signal.SIGKILL


def test_each_program_draws_random_numbers_of_its_own(launcher: Launcher, policy: SandboxPolicy) -> None:
    roomy = replace(policy, memory_bytes=4 << 30)
    code = "import random, torch; print(torch.initial_seed(), random.random())"
    found = {_output(_start(launcher, roomy, code, preload=("torch",))) for _ in range(2)}
    assert len({text.split()[0] for text in found}) == len({text.split()[1] for text in found}) == 2


def test_no_server_outlives_its_launcher(policy: SandboxPolicy) -> None:
    with Launcher() as launcher:
        running = _start(launcher, policy, "import time; time.sleep(60)")
        (server,) = _servers()
    assert running.wait(0)
    assert read_process(server) is None
    assert _servers() == []


def test_many_start_at_once(launcher: Launcher, policy: SandboxPolicy) -> None:
    with ThreadPoolExecutor(12) as pool:
        found = pool.map(lambda number: _output(_start(launcher, policy, f"print({number})")), range(12))
    assert list(found) == [str(number) for number in range(12)]
    assert len(_servers()) == 1


UNDER_ANOTHER_ROOT = """
import sys
from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import Launcher, SandboxPolicy
policy = SandboxPolicy(
    tier=SandboxTier.BUBBLEWRAP,
    memory_bytes=1 << 28,
    processes=24,
    file_bytes=1 << 26,
    scratch_bytes=1 << 25,
    environment={},
)
code = "import os, sys; print([os.path.exists(path) for path in (sys.argv[1], os.__file__)])"
argv = (sys.executable, "-I", "-S", "-c", code, sys.argv[1])
with Launcher() as launcher:
    for preload in ((), ("fractions",)):
        running = launcher.start(argv, policy, preload=preload)
        running.wait(60)
        running.kill()
        print(running.output(), end="")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_a_program_forked_under_another_root_stays_in_its_sandbox(tmp_path: Path) -> None:
    if not probe().tiers[SandboxTier.BUBBLEWRAP].works:
        pytest.skip("needs bubblewrap")
    secret, root = tmp_path / "secret", tmp_path / "root"
    secret.touch()
    root.mkdir()
    here = f"mount --rbind / '{root}' && exec chroot '{root}' \"$@\""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", here, "sh", sys.executable, "-c", UNDER_ANOTHER_ROOT, secret],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / ".ci" / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    executed, forked = done.stdout.splitlines() or (done.stderr, "")
    assert executed == forked == "[False, True]"
