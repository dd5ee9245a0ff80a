"""The append-only file: whole lines or none, one writer, nothing lost when it was torn."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.agent.archive import ArchiveError
from kernelwright.agent.archive.log import LogFile, parse, read_lines
from kernelwright.agent.archive.private_lock import locked, take_lock
from kernelwright.agent.records.attempt_log import SCHEMA_VERSION, ProblemSkipped

LINE = ProblemSkipped(at="2026-01-01T00:00:00+00:00", problem="p", message="why \N{GREEK SMALL LETTER PI}")


def written(path: Path, count: int = 3) -> bytes:
    log = LogFile(path, sync=False)
    for _ in range(count):
        log.append(LINE.model_dump_json().encode() + b"\n")
    log.close()
    return path.read_bytes()


def repaired(path: Path) -> list[bytes]:
    log = LogFile(path, sync=False)
    torn = log.repair(path.parent / "torn")
    log.append(LINE.model_dump_json().encode() + b"\n")
    log.close()
    return [part.read_bytes() for part in torn]


def test_appended_lines_come_back_in_order_with_their_offsets(tmp_path: Path) -> None:
    data = written(tmp_path / "log")
    placed = list(read_lines(tmp_path / "log"))
    assert [line.number for line in placed] == [1, 2, 3]
    assert all(data[line.offset :].startswith(line.data) for line in placed)
    assert [parse(line, tmp_path / "log") for line in placed] == [LINE] * 3


def test_a_line_is_found_again_by_the_offset_that_append_gave(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", sync=False)
    long = LINE.model_copy(update={"message": "x" * 20_000})
    offsets = [log.append(line.model_dump_json().encode() + b"\n") for line in (LINE, long, LINE)]
    assert [parse(log.line_at(offset), log.path) for offset in offsets] == [LINE, long, LINE]
    log.close()


@pytest.mark.parametrize("sync", [True, False])
def test_a_synced_line_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    synced = []
    monkeypatch.setattr("os.fdatasync", lambda file: synced.append(os.fstat(file).st_size))
    log = LogFile(tmp_path / "log", sync=sync)
    log.append(b"{}\n")
    log.sync()
    log.close()
    assert synced == ([3] if sync else [])


def test_a_second_writer_is_refused_and_may_come_after_the_first(tmp_path: Path) -> None:
    first = LogFile(tmp_path / "log")
    with pytest.raises(ArchiveError, match="being written by another process"):
        LogFile(tmp_path / "log")
    first.close()
    LogFile(tmp_path / "log").close()


def test_whoever_may_read_a_log_cannot_hold_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "log"
    LogFile(path).close()
    reader = os.open(path, os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_EX)
    LogFile(path).close()
    os.close(reader)
    (lock,) = (file for file in tmp_path.iterdir() if file != path)
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_lock_is_waited_for_no_longer_than_asked_and_never_through_a_link(tmp_path: Path) -> None:
    with locked(tmp_path / "lock", wait_s=0), pytest.raises(BlockingIOError, match="another process"):
        take_lock(tmp_path / "lock", wait_s=0.05)
    os.close(take_lock(tmp_path / "lock"))
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        take_lock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_the_lock_of_a_killed_writer_is_free(tmp_path: Path) -> None:
    path = tmp_path / "log"
    program = (
        "import os, pathlib, signal, sys; from kernelwright.agent.archive.log import LogFile;"
        "LogFile(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=root, check=False)
    assert done.returncode == -9
    LogFile(path).close()


def test_an_unfinished_last_line_is_not_seen_by_readers(tmp_path: Path) -> None:
    data = written(tmp_path / "log")
    (tmp_path / "log").write_bytes(data[:-5])
    assert len(list(read_lines(tmp_path / "log"))) == 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0, max_value=600))
def test_a_log_cut_anywhere_keeps_every_whole_line_and_loses_no_byte(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    data = written(folder / "log")
    cut = min(cut, len(data))
    (folder / "log").write_bytes(data[:cut])
    aside = repaired(folder / "log")
    after = (folder / "log").read_bytes()
    lines = [parse(line, folder / "log") for line in read_lines(folder / "log")]
    assert lines == [LINE] * len(lines)
    assert len(lines) - 1 >= data[:cut].count(b"\n")
    before = after[: after.rstrip(b"\n").rfind(b"\n") + 1]
    assert (before.rstrip(b"\n") + b"\n" * bool(before) + b"".join(aside)).startswith(
        data[:cut].rstrip(b"\n")
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(min_size=1, max_size=200))
def test_whatever_is_at_the_end_the_lines_before_it_survive(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes
) -> None:
    folder = tmp_path_factory.mktemp("garbage")
    data = written(folder / "log")
    (folder / "log").write_bytes(data + garbage)
    aside = repaired(folder / "log")
    assert [parse(line, folder / "log") for line in read_lines(folder / "log")] == [LINE] * 4
    assert sum(map(len, aside)) == len(garbage)


def test_zeroes_left_by_a_power_cut_are_moved_aside(tmp_path: Path) -> None:
    data = written(tmp_path / "log")
    (tmp_path / "log").write_bytes(data + b"\0" * 300 + b"\n" + b"\0" * 10)
    assert sorted(map(len, repaired(tmp_path / "log"))) == [10, 301]
    assert len(list(read_lines(tmp_path / "log"))) == 4


def test_a_complete_line_that_lacks_only_its_newline_is_kept(tmp_path: Path) -> None:
    data = written(tmp_path / "log")
    (tmp_path / "log").write_bytes(data[:-1])
    assert repaired(tmp_path / "log") == []
    assert len(list(read_lines(tmp_path / "log"))) == 4


def test_a_newer_line_is_named_as_such(tmp_path: Path) -> None:
    newer = json.loads(LINE.model_dump_json()) | {"schema_version": SCHEMA_VERSION + 1, "mood": "good"}
    (tmp_path / "log").write_text(json.dumps(newer) + "\n")
    with pytest.raises(ArchiveError, match=r"newer kernelwright \(schema 2"):
        parse(next(read_lines(tmp_path / "log")), tmp_path / "log")


def test_a_newer_line_of_known_shape_is_refused_too(tmp_path: Path) -> None:
    newer = LINE.model_copy(update={"schema_version": SCHEMA_VERSION + 1})
    (tmp_path / "log").write_text(newer.model_dump_json() + "\n")
    with pytest.raises(ArchiveError, match="newer"):
        parse(next(read_lines(tmp_path / "log")), tmp_path / "log")


def test_a_damaged_line_is_named_with_its_number(tmp_path: Path) -> None:
    data = written(tmp_path / "log")
    lines = data.split(b"\n")
    lines[1] = lines[1][:40]
    (tmp_path / "log").write_bytes(b"\n".join(lines))
    with pytest.raises(ArchiveError, match="line 2 is damaged"):
        [parse(line, tmp_path / "log") for line in read_lines(tmp_path / "log")]


def test_a_failed_write_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    program = """
import pathlib, resource, signal, sys
from kernelwright.agent.archive.log import LogFile
from kernelwright.agent.archive.private_lock import locked, take_lock
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = LogFile(pathlib.Path(sys.argv[1]))
log.append(b"x" * 99 + b"\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))
try:
    log.append(b"y" * 99 + b"\\n")
except OSError as error:
    print(type(error).__name__, error.filename)
resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))
log.append(b"z" * 49 + b"\\n")
"""
    path = tmp_path / "log"
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=root, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"OSError {path}\n"
    assert path.read_bytes() == b"x" * 99 + b"\n" + b"z" * 49 + b"\n"


def test_the_lock_is_not_inherited_by_programs_we_start(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    program = [sys.executable, "-c", "print('here', flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == b"here\n"
        log.close()
        LogFile(tmp_path / "log").close()
        child.communicate(b"\n")
