"""The host paths every sandbox sees: an allow-list without homes, the project tree, /run and /var."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from kernelwright.evaluator.sandbox.isolation.sandbox_policy import Bind
from kernelwright.evaluator.sandbox.policy import MAX_LINKS

SYSTEM: Final = (
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store"
)  # fmt: skip
SETTINGS: Final = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
)
PREFIX_PARTS: Final = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")


@cache
def system_binds(*, devices: bool) -> tuple[Bind, ...]:
    """Programs, libraries and the dynamic loader's files; all of /sys only where devices are passed."""
    hidden = _hidden()
    seen = [part for path in SYSTEM if not Path(path).is_symlink() for part in _without(Path(path), hidden)]
    seen += [Path(path) for path in SETTINGS]
    seen.append(Path("/sys") if devices else Path("/sys/devices/system"))
    return tuple(Bind(path.resolve(), path) for path in seen if path.exists())


@cache
def system_links() -> tuple[tuple[str, str], ...]:
    """Top-level links, such as /bin, and their targets."""
    return tuple((path, str(Path(path).readlink())) for path in SYSTEM if Path(path).is_symlink())


@cache
def python_binds() -> tuple[Bind, ...]:
    """The running interpreter, its packages and the CUDA toolkit, read-only, and nothing beside them.

    A virtual environment inside a project is bound without the project. Every path is shown under the name
    the interpreter uses and, where that is a link, under its real one.
    """
    hidden = _hidden()
    roots = [part for root in _roots() for part in _narrow(root, hidden)]
    shown: dict[Path, Path] = {}
    for path in roots:
        for name in (path, path.resolve()):
            if path.exists() and not _covered(name, shown, hidden):
                shown[name] = path.resolve()
    for link in _links(Path(sys.executable)):
        if not _covered(link, shown, hidden):
            shown[link] = link.resolve()
    return tuple(Bind(source, target) for target, source in shown.items())


def unseen_binds(paths: Iterable[Path], binds: Iterable[Bind] = ()) -> tuple[Bind, ...]:
    """Read-only binds of those paths that a sandbox with these binds does not see anyway.

    Never of a parent of system folders, such as / for a compiler in a folder below it.
    """
    system = [Path(folder) for folder in SYSTEM]
    seen = [*system, *(bind.target or bind.source for bind in (*python_binds(), *binds))]
    return tuple(
        Bind(path)
        for path in paths
        if not any(path.is_relative_to(folder) for folder in seen)
        and not any(folder.is_relative_to(path) for folder in system)
    )


def _roots() -> Iterator[Path]:
    yield from (Path(path) for path in (sys.base_prefix, sys.prefix, sys.base_exec_prefix, sys.exec_prefix))
    yield from (Path(path) for path in sysconfig.get_paths().values() if Path(path).is_dir())
    if site.ENABLE_USER_SITE and site.USER_SITE:
        yield Path(site.USER_SITE)
    yield from (Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name))


def _hidden() -> tuple[Path, ...]:
    """Folders that no bind of a parent may show: the home folder and this program's source tree."""
    package = Path(__file__).resolve().parents[2]
    folders = [Path(os.path.expanduser("~")).resolve()]  # noqa: PTH111  # Path.home() raises without one
    if not {"site-packages", "dist-packages"} & set(package.parts):
        folders.append(package.parent)
    return tuple(folders)


def _without(path: Path, hidden: Iterable[Path]) -> list[Path]:
    inside = [folder for folder in hidden if folder.is_relative_to(path)]
    if path in inside:
        return []
    if not inside or not path.is_dir():
        return [path]
    return [part for entry in sorted(path.iterdir()) for part in _without(entry, inside)]


def _narrow(root: Path, hidden: Iterable[Path]) -> list[Path]:
    """An interpreter's folder, or only its known parts where a hidden folder lies in it."""
    if any(folder.is_relative_to(root.resolve()) for folder in hidden):
        return [root / part for part in PREFIX_PARTS if (root / part).exists()]
    return [root]


def _covered(path: Path, shown: Iterable[Path], hidden: Iterable[Path]) -> bool:
    if any(path.is_relative_to(folder) for folder in shown):
        return True
    if any(path.is_relative_to(folder) for folder in hidden):
        return False
    return any(path.is_relative_to(folder) for folder in SYSTEM)


def _links(path: Path) -> Iterator[Path]:
    for _ in range(MAX_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))
