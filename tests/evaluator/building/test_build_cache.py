from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernelwright.evaluator.building.build_cache import BuildCache, CacheEntry
from kernelwright.evaluator.schema.errors import MachineError

KEYS = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(8)]


def _publish(cache: BuildCache, key: str, content: bytes = b"library") -> None:
    with cache.staged() as folder:
        (folder / "built.so").write_bytes(content)
        entry = CacheEntry(ok=True, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        cache.publish(key, folder, entry)


def test_a_published_build_is_found_read_only(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    assert cache.find(KEYS[0]) is None
    _publish(cache, KEYS[0])
    assert cache.find(KEYS[0]) == CacheEntry(ok=True, sha256=hashlib.sha256(b"library").hexdigest(), size=7)
    assert cache.shared_object(KEYS[0]).stat().st_mode & 0o777 == 0o444


def test_a_failure_is_kept_too(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with cache.staged() as folder:
        cache.publish(KEYS[0], folder, CacheEntry(ok=False, log="error: x"))
    found = BuildCache(tmp_path).find(KEYS[0])
    assert found is not None
    assert found.log == "error: x"


def test_the_first_publisher_wins(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    _publish(cache, KEYS[0], b"first")
    _publish(cache, KEYS[0], b"second")
    assert cache.shared_object(KEYS[0]).read_bytes() == b"first"


def test_a_damaged_library_counts_as_absent(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    _publish(cache, KEYS[0])
    cache.shared_object(KEYS[0]).chmod(0o644)
    cache.shared_object(KEYS[0]).write_bytes(b"poison!")
    assert cache.find(KEYS[0]) is None
    _publish(cache, KEYS[0])
    assert cache.find(KEYS[0]) is not None


def test_a_half_written_entry_counts_as_absent(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    _publish(cache, KEYS[0])
    record = cache.shared_object(KEYS[0]).with_name("entry.json")
    record.write_bytes(record.read_bytes()[:10])
    assert cache.find(KEYS[0]) is None


def test_the_least_recently_used_entries_are_evicted(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, max_bytes=5_000)
    for age, key in enumerate(KEYS[:4]):
        _publish(cache, key, bytes(1_000))
        long_ago = 1_000_000 + age
        os.utime(cache.shared_object(key).parent, (long_ago, long_ago))
    assert cache.find(KEYS[0]) is not None
    _publish(cache, KEYS[4], bytes(1_500))
    assert cache.find(KEYS[1]) is None
    assert cache.find(KEYS[0]) is not None
    assert cache.find(KEYS[4]) is not None


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    with cache.staged() as folder:
        machine = folder.name.rsplit("-", 2)[0]
    assert not folder.exists()
    orphan = tmp_path / "staging" / f"{machine}-{int(ended.stdout)}-1"
    elsewhere = tmp_path / "staging" / f"another-{int(ended.stdout)}-1"
    orphan.mkdir()
    elsewhere.mkdir()
    with cache.staged() as folder:
        assert folder.exists()
        assert not orphan.exists()
        assert elsewhere.exists()


def test_only_one_holds_the_right_to_build_a_key(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    inside: list[int] = []
    most: list[int] = []

    def build() -> None:
        with cache.building(KEYS[0]):
            inside.append(1)
            most.append(len(inside))
            threading.Event().wait(0.005)
            inside.pop()

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert not list((tmp_path / "locks").iterdir())


def test_a_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    BuildCache(tmp_path)
    program = (
        "import sys, os, signal; from pathlib import Path\n"
        "from kernelwright.evaluator.building.build_cache import BuildCache\n"
        f"with BuildCache(Path({str(tmp_path)!r})).building({KEYS[0]!r}):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).resolve().parents[3]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == -9
    with BuildCache(tmp_path).building(KEYS[0]):
        pass


def test_a_wait_for_another_build_ends_and_names_its_process(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with (
        cache.building(KEYS[0]),
        pytest.raises(MachineError, match=f"for process {os.getpid()} to build {KEYS[0]}"),
        cache.building(KEYS[0], wait_s=0.05),
    ):
        pass
    with cache.building(KEYS[0], wait_s=0.05):
        pass


def test_an_unusable_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"build cache at .* cannot be used: .*--cache"):
        BuildCache(tmp_path / "file" / "cache")
