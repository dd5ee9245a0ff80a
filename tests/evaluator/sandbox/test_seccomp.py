"""The filter program, interpreted here for processors this machine may not have."""

from __future__ import annotations

import struct

import pytest

from kernelwright.evaluator.sandbox.isolation import seccomp
from kernelwright.evaluator.sandbox.isolation.seccomp import (
    ARCHITECTURES,
    CALLS,
    DEBUGGING,
    TIMERS,
    Architecture,
    Sockets,
)

ALLOWED = seccomp.ALLOW


def answer(program: bytes, machine: Architecture, number: int, *arguments: int, audit: int = 0) -> int:
    """What a filter returns for one call: a small interpreter of classic BPF."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, audit or machine.audit, 0, *padded)
    lines = list(struct.iter_unpack("=HBBI", program))
    place = accumulator = 0
    while True:
        code, if_true, if_false, value = lines[place]
        place += 1
        match code:
            case seccomp.LOAD:
                accumulator = struct.unpack_from("=I", data, value)[0]
            case seccomp.AND:
                accumulator &= value
            case seccomp.RETURN:
                return int(value)
            case seccomp.JUMP_EQUAL:
                place += if_true if accumulator == value else if_false
            case seccomp.JUMP_GREATER_EQUAL:
                place += if_true if accumulator >= value else if_false
            case seccomp.JUMP_ANY_BIT:
                place += if_true if accumulator & value else if_false
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


@pytest.fixture(params=ARCHITECTURES.values(), ids=ARCHITECTURES)
def machine(request: pytest.FixtureRequest) -> Architecture:
    assert isinstance(request.param, Architecture)
    return request.param


def build(machine: Architecture, sockets: Sockets = Sockets.INTERNET, *, nested: bool = False) -> bytes:
    return seccomp.program(machine, sockets=sockets, nested=nested, timers=True)


def test_every_listed_call_is_refused_and_others_are_not(machine: Architecture) -> None:
    program = build(machine)
    listed = {row[machine.column] for row in (*CALLS.values(), *DEBUGGING.values())} - {None}
    special = {machine.clone3, machine.socket, machine.socketpair}
    for number in range(480):
        expected = seccomp.ERRNO | seccomp.EPERM if number in listed else ALLOWED
        if number not in special:
            assert answer(program, machine, number) == expected, number


def test_a_foreign_table_kills_and_x32_does_not_exist(machine: Architecture) -> None:
    program = build(machine)
    assert answer(program, machine, 0, audit=0x40000003) == seccomp.KILL_PROCESS
    if machine.column == 0:
        assert answer(program, machine, seccomp.X32_BIT | 39) == seccomp.ERRNO | seccomp.ENOSYS


def test_nested_allows_only_debugging(machine: Architecture) -> None:
    program = build(machine, nested=True)
    for row in DEBUGGING.values():
        assert answer(program, machine, row[machine.column] or -1) == ALLOWED
    assert answer(program, machine, CALLS["mount"][machine.column] or -1) != ALLOWED


def test_signals_on_a_timer_are_refused_when_asked(machine: Architecture) -> None:
    program = seccomp.program(machine, sockets=Sockets.INTERNET, nested=False, timers=False)
    for row in TIMERS.values():
        assert answer(program, machine, row[machine.column] or -1) != ALLOWED
        assert answer(build(machine), machine, row[machine.column] or -1) == ALLOWED
    assert answer(program, machine, machine.fcntl, 3, seccomp.F_SETSIG) != ALLOWED
    assert answer(program, machine, machine.fcntl, 3, 2) == ALLOWED


def test_new_namespaces_are_refused_and_threads_are_not(machine: Architecture) -> None:
    program = build(machine)
    thread = 0x003D0F00
    assert answer(program, machine, machine.clone, thread) == ALLOWED
    assert answer(program, machine, machine.clone, 17) == ALLOWED
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(program, machine, machine.clone, flag | 17) == seccomp.ERRNO | seccomp.EPERM
    parent = 0x8000
    assert answer(program, machine, machine.clone, parent | 17) == seccomp.ERRNO | seccomp.EPERM
    assert answer(program, machine, machine.clone3) == seccomp.ERRNO | seccomp.ENOSYS


@pytest.mark.parametrize(
    ("sockets", "allowed"),
    [(Sockets.INTERNET, {1, 2, 10}), (Sockets.UNIX, {1}), (Sockets.PAIRS, set())],
)
def test_socket_families(machine: Architecture, sockets: Sockets, allowed: set[int]) -> None:
    program = build(machine, sockets)
    found = {family for family in range(50) if answer(program, machine, machine.socket, family, 1) == ALLOWED}
    assert found == allowed


def test_pairs_cannot_be_sent_elsewhere_without_a_network_namespace(machine: Architecture) -> None:
    program = build(machine, Sockets.PAIRS)
    close_on_exec = 0o2000000
    answers = [answer(program, machine, machine.socketpair, 1, kind | close_on_exec) for kind in (1, 2, 5)]
    assert [found == ALLOWED for found in answers] == [True, False, True]
    assert answer(program, machine, machine.socketpair, 2, 1) != ALLOWED
