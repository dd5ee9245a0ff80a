"""The system-call filter: a deny-list compiled to classic BPF.

It denies calls that reach around namespaces (other processes' memory, mounts, new namespaces, kernel keys,
kernel code, clocks), those with the worst record (io_uring, AIO, userfaultfd, bpf, perf), and but for tools
internet sockets, for which the kernel works on while their process is frozen. Everything else is allowed:
compilers, CUDA and sanitizers use more calls than an allow-list could name. Written by hand: pyseccomp only
wraps a libseccomp that many machines lack, and would still need these tables.
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
X32_BIT = 0x40000000
CLONE_FLAGS = 0x7E028000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET; and CLONE_PARENT, which would make
children for a fork server's process outside, and in the end for whoever reaps, or does not, out there."""
TERMINAL_INJECTIONS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing into the terminal that started us."""
F_SETSIG = 10
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
STREAM_TYPES = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET: once paired they cannot be sent elsewhere."""


class Sockets(Enum):
    INTERNET = "UNIX and internet: in an empty network namespace, for tools that talk to their target"
    UNIX = "UNIX: in an empty network namespace, or with devices that need them"
    PAIRS = "connected pairs only"


@dataclass(frozen=True, slots=True)
class Architecture:
    audit: int
    column: int
    """Index of its number in a row of `CALLS`."""
    load_filter: int
    """Number of the `seccomp` call."""
    clone: int
    clone3: int
    socket: int
    socketpair: int
    ioctl: int
    fcntl: int


ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, 0, 317, 56, 435, 41, 53, 16, 72),
    "aarch64": Architecture(0xC00000B7, 1, 277, 220, 435, 198, 199, 29, 25),
}

CALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    # other processes
    "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    # mounts
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    # namespaces
    "unshare": (272, 97), "setns": (308, 268),
    # kernel keys, code and memory
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_setup": (206, 0),
    "io_submit": (209, 2), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "modify_ldt": (154, None), "lookup_dcookie": (212, 18),
    # the machine
    "syslog": (103, 116), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "iopl": (172, None), "ioperm": (173, None), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
}  # fmt: skip

DEBUGGING: Final[dict[str, tuple[int | None, int | None]]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
}

TIMERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "timer_create": (222, 107),
    "mq_notify": (244, 184),
}
"""Calls that can send SIGCONT later, which would undo a freeze by signals; `fcntl` can too."""


def architecture() -> Architecture | None:
    """This machine's architecture; None where no filter is known."""
    return ARCHITECTURES.get(platform.machine())


def program(machine: Architecture, *, sockets: Sockets, nested: bool, timers: bool) -> bytes:
    """The filter as an array of `sock_filter`.

    `nested` allows ptrace; `timers` allows calls by which the kernel sends a chosen signal later.
    """
    denied = dict(CALLS)
    if not nested:
        denied |= DEBUGGING
    if not timers:
        denied |= TIMERS
    numbers = sorted(number for row in denied.values() if (number := row[machine.column]) is not None)
    code = [_op(LOAD, 4), _op(JUMP_EQUAL, machine.audit, 1, 0), _op(RETURN, KILL_PROCESS), _op(LOAD, 0)]
    if machine.column == 0:
        code += [_op(JUMP_GREATER_EQUAL, X32_BIT, 0, 1), _refuse(ENOSYS)]
    for number in numbers:
        code += [_op(JUMP_EQUAL, number, 0, 1), _refuse(EPERM)]
    code += [_op(JUMP_EQUAL, machine.clone3, 0, 1), _refuse(ENOSYS)]
    code += _when(machine.clone, [_op(LOAD, 16), _op(JUMP_ANY_BIT, CLONE_FLAGS, 0, 1), _refuse(EPERM)])
    code += _when(machine.ioctl, [_op(LOAD, 24), *_refuse_values(TERMINAL_INJECTIONS)])
    if not timers:
        code += _when(machine.fcntl, [_op(LOAD, 24), *_refuse_values((F_SETSIG,))])
    code += _when(machine.socket, _sockets(sockets))
    code += _when(machine.socketpair, _pairs(sockets))
    return b"".join([*code, _op(RETURN, ALLOW)])


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(errno: int) -> bytes:
    return _op(RETURN, ERRNO | errno)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Code for one system call, which allows it unless the body refuses."""
    body = [*body, _op(RETURN, ALLOW)]
    return [_op(JUMP_EQUAL, number, 0, len(body)), *body]


def _refuse_values(values: tuple[int, ...]) -> list[bytes]:
    return [line for value in values for line in (_op(JUMP_EQUAL, value, 0, 1), _refuse(EPERM))]


def _allow_values(values: tuple[int, ...]) -> list[bytes]:
    allowed = [line for value in values for line in (_op(JUMP_EQUAL, value, 0, 1), _op(RETURN, ALLOW))]
    return [*allowed, _refuse(EAFNOSUPPORT)]


def _sockets(sockets: Sockets) -> list[bytes]:
    families = {Sockets.INTERNET: (AF_UNIX, AF_INET, AF_INET6), Sockets.UNIX: (AF_UNIX,), Sockets.PAIRS: ()}[
        sockets
    ]
    return [_op(LOAD, 16), *_allow_values(families)]


def _pairs(sockets: Sockets) -> list[bytes]:
    family = [_op(LOAD, 16), _op(JUMP_EQUAL, AF_UNIX, 1, 0), _refuse(EAFNOSUPPORT)]
    if sockets is not Sockets.PAIRS:
        return family
    return [*family, _op(LOAD, 24), _op(AND, 0xF), *_allow_values(STREAM_TYPES)]
