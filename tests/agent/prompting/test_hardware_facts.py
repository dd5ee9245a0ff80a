"""The table of targets, and what this machine says of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.agent.prompting.hardware_facts import find_target, read_targets, this_cpu, this_machine
from kernelwright.agent.prompting.prompts import installed_prompts
from kernelwright.evaluator import ConfigError, Math, gpus

PROMPTS = installed_prompts()


def test_known_targets_have_the_numbers_a_roofline_needs() -> None:
    targets = read_targets(PROMPTS)
    assert {"h100", "h200", "a100", "l40s", "rtx4090", "b200"} <= set(targets)
    for target in targets.values():
        assert target.kind == "cuda"
        assert target.bandwidth_gb_s
        assert all(target.peak_tflops(math) for math in Math)
        assert target.multiprocessors and target.l2_mib and target.shared_kib_per_block


def test_targets_are_found_by_name_in_any_case() -> None:
    assert find_target("H200", PROMPTS).name == "NVIDIA H200 SXM"
    assert find_target("cpu", PROMPTS) == this_cpu()
    with pytest.raises(ConfigError, match=r"unknown target 'h900'; known: cpu, .*h200"):
        find_target("h900", PROMPTS)


def test_a_missing_or_broken_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the hardware table"):
        read_targets(tmp_path)
    (tmp_path / "hardware.toml").write_text('[x]\nname = "x"\nmatch = []\nspeed = 3\n')
    with pytest.raises(ConfigError, match="speed"):
        read_targets(tmp_path)


def test_this_processor_is_described() -> None:
    cpu = this_machine("cpu", PROMPTS)
    assert cpu.kind == "cpu"
    assert cpu.multiprocessors == len(os.sched_getaffinity(0))
    assert cpu.memory_gb and cpu.name


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What the driver said in one test is not remembered in another."""
    gpus.cache_clear()
    yield
    gpus.cache_clear()


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, capability: str, memory: str) -> None:
    tool = folder / "nvidia-smi"
    answer = f"0, {name}, 580.1, {capability}, GPU-1, 00000000:18:00.0, {memory}"
    tool.write_text(f"#!/bin/sh\necho '{answer}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    gpus.cache_clear()


def test_the_driver_names_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, "NVIDIA H200", "9.0", "143771")
    assert this_machine("cuda", PROMPTS) == find_target("h200", PROMPTS)
    smi(tmp_path, monkeypatch, "NVIDIA L40S", "8.9", "46068")
    assert this_machine("cuda", PROMPTS).l2_mib == 96
    smi(tmp_path, monkeypatch, "NVIDIA Something New", "13.1", "100000")
    unknown = this_machine("cuda", PROMPTS)
    assert (unknown.name, unknown.architecture, unknown.peak) == ("NVIDIA Something New", "sm_131", {})
    assert unknown.memory_gb == 104.9


def test_without_a_gpu_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="--target h200"):
        this_machine("cuda", PROMPTS)
