"""Content-addressed store of builds: read-only entries, published atomically, bounded in size.

Only the trusted side writes here. An entry is a folder `<key>/` with `entry.json` and, where the build
succeeded, `built.so`; a folder appears complete or not at all, even when a process is killed. The request it
was built from may be added later.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import Base64Bytes, Field, ValidationError

from kernelwright.evaluator.building.policy import CACHE_BYTES, CACHE_FULLNESS_AFTER_EVICTION, ENTRY_IN_USE_S
from kernelwright.evaluator.host import file_lock
from kernelwright.evaluator.host.files import sha256_file, write_whole
from kernelwright.evaluator.host.policy import BUILD_WAIT_S
from kernelwright.evaluator.sandbox.process.cleanup import namespace
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.record import Record


class CacheEntry(Record):
    ok: bool
    log: str = ""
    retry: bool = False
    """The failure is suspect: a build with full headers must decide."""
    sha256: str = ""
    """Of `built.so`."""
    size: int = 0
    """Of `built.so`, bytes."""


class PackedBuild(Record):
    """An entry on its way to the cache of another machine."""

    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    entry: CacheEntry
    shared_object: Base64Bytes = b""
    """Content of `built.so`."""
    request: str | None = None


class BuildCache:
    """The store of one folder; safe to share between threads and processes.

    Whatever writes to it raises MachineError where the disk is full or cannot be written.
    """

    def __init__(self, root: Path, *, max_bytes: int = CACHE_BYTES) -> None:
        self.root = root
        self._entries = root / "entries"
        self._staging = root / "staging"
        self._locks = root / "locks"
        self._max_bytes = max_bytes
        with _disk_faults(root):
            for folder in (self._entries, self._staging, self._locks):
                folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> CacheEntry | None:
        """The entry of a key, or None; a damaged one is removed and counts as absent."""
        folder = self._folder(key)
        try:
            entry = CacheEntry.model_validate_json((folder / "entry.json").read_bytes())
            intact = not entry.ok or sha256_file(self.shared_object(key)) == entry.sha256
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            intact = False
        if not intact:
            with _disk_faults(folder):
                self._remove(folder)
            return None
        with suppress(OSError):  # evicted, or a read-only cache
            os.utime(folder)
        return entry

    def has(self, key: str) -> bool:
        """True where there is an entry, intact or not."""
        return (self._folder(key) / "entry.json").exists()

    def shared_object(self, key: str) -> Path:
        return self._folder(key) / "built.so"

    def add_request(self, key: str, text: str) -> None:
        """Store the request beside an entry, so that it can be built with other headers."""
        path = self._folder(key) / "request.json"
        if path.exists():
            return
        with _disk_faults(path), suppress(FileNotFoundError):  # evicted meanwhile
            write_whole(path, text.encode(), pending=self._staging, sync=True)

    def request(self, key: str) -> str | None:
        """The request an entry was built from; None if it was not stored."""
        try:
            return (self._folder(key) / "request.json").read_text()
        except FileNotFoundError:
            return None

    def pack(self, key: str, *, most_bytes: int) -> PackedBuild | None:
        """Pack an entry for another machine; None if it is absent, or larger than `most_bytes`."""
        entry = self.find(key)
        if entry is None or entry.size > most_bytes:
            return None
        try:
            content = self.shared_object(key).read_bytes() if entry.ok else b""
        except FileNotFoundError:  # evicted meanwhile
            return None
        encoded = base64.b64encode(content)
        return PackedBuild(key=key, entry=entry, shared_object=encoded, request=self.request(key))

    def unpack(self, packed: PackedBuild) -> None:
        """Add an entry of another machine, unless there is one; raises MachineError if it came damaged."""
        entry = packed.entry
        if entry.ok and hashlib.sha256(packed.shared_object).hexdigest() != entry.sha256:
            raise MachineError(f"the build {packed.key} of another machine came damaged")
        if not self.has(packed.key):
            with self.staged() as folder:
                with _disk_faults(folder):
                    if entry.ok:
                        (folder / "built.so").write_bytes(packed.shared_object)
                self.publish(packed.key, folder, entry)
        if packed.request is not None:
            self.add_request(packed.key, packed.request)

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """A private folder on the store's file system, removed afterwards unless published."""
        with _disk_faults(self._staging):
            self._sweep_staging()
            folder = self._private_folder()
            folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put_in_place(self, folder: Path, target: Path) -> None:
        """Give a staged folder its final name, readable to every sandbox; the first of two wins."""
        with _disk_faults(target):
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o444)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                folder.rename(target)

    def publish(self, key: str, folder: Path, entry: CacheEntry) -> None:
        """Turn a staged folder into the entry of a key; the first of two publishers wins."""
        with _disk_faults(self._entries):
            write_whole(folder / "entry.json", entry.model_dump_json().encode(), sync=True)
            if entry.ok:
                _sync(folder / "built.so")
            self.put_in_place(folder, self._folder(key))
            _sync(self._folder(key).parent)
            self._evict()

    @contextmanager
    def building(self, key: str, *, wait_s: float = BUILD_WAIT_S) -> Iterator[None]:
        """Hold the lock of a key, for which others wait; raises MachineError after `wait_s` seconds."""
        path = self._locks / key
        with _disk_faults(self._locks):
            descriptor = _lock(path, wait_s)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def _folder(self, key: str) -> Path:
        return self._entries / key[:2] / key

    def _private_folder(self) -> Path:
        """A name that no other process takes and that `_sweep_staging` reads."""
        return self._staging / f"{_machine()}-{os.getpid()}-{time.monotonic_ns()}"

    def _remove(self, folder: Path) -> None:
        removed = self._private_folder()
        with suppress(FileNotFoundError):
            folder.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)

    def _evict(self) -> None:
        used = [(path, path.stat().st_mtime, _size(path)) for path in self._entries.glob("*/*")]
        total = sum(size for _, _, size in used)
        if total <= self._max_bytes:
            return
        now = time.time()
        for path, when, size in sorted(used, key=lambda item: item[1]):
            if total <= self._max_bytes * CACHE_FULLNESS_AFTER_EVICTION or now - when < ENTRY_IN_USE_S:
                break
            self._remove(path)
            total -= size

    def _sweep_staging(self) -> None:
        """Remove what processes of this machine left that are gone; others may share the store."""
        for folder in self._staging.iterdir():
            machine, _, name = folder.name.rpartition("-")[0].rpartition("-")
            if machine == _machine() and not Path("/proc", name).exists():
                shutil.rmtree(folder, ignore_errors=True)


def _machine() -> str:
    """This host and its pid namespace, within which process numbers mean something."""
    return f"{os.uname().nodename}-{namespace()}"


@contextmanager
def _disk_faults(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"the build cache at {place} cannot be used: {error.strerror or error}"
        raise MachineError(f"{reason}; choose another folder with --cache") from error


def _lock(path: Path, wait_s: float) -> int:
    """Lock a file that each holder deletes: repeated until the locked file is still the one on disk."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not file_lock.lock(descriptor, fcntl.LOCK_EX, wait_s=wait_s):
            who = file_lock.holders(descriptor)
            os.close(descriptor)
            raise MachineError(f"waited {wait_s:g} s for {who} to build {path.name}; let it end, or end it")
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except FileNotFoundError:
        return 0
