"""Devices by name, on machines with and without GPUs."""

from __future__ import annotations

import os

import pytest

from kernelwright.evaluator.host import hardware
from kernelwright.evaluator.host.hardware import Concurrency
from kernelwright.evaluator.schema.errors import ConfigError, MachineError


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """An `nvidia-smi` that lists four."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\nfor i in 0 1 2 3; do\n"
        'echo "Unable to determine the device handle for gpu $i: Unknown Error"\n'
        'echo "$i, NVIDIA H200, 580.1, 9.0, GPU-8a1b2c3$i, 00000000:$((i + 1))B:00.0, 143771 MiB"; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    hardware.gpus.cache_clear()
    yield
    hardware.gpus.cache_clear()


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("wanted", "visible", "devices"),
    [
        ("auto", None, ("cuda:0", "cuda:1", "cuda:2", "cuda:3")),
        ("cuda", "2,1", ("cuda:2", "cuda:1")),
        ("cuda", "GPU-8a1b2c3d", ("cuda:0", "cuda:1", "cuda:2", "cuda:3")),
        ("cuda:3, cuda:1,cuda:3", None, ("cuda:3", "cuda:1")),
        ("cpu", None, ("cpu",)),
    ],
)
def test_a_name_stands_for_one_or_several_devices(wanted, visible, devices, monkeypatch) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.resolve_devices(wanted, "cuda") == devices
    assert hardware.resolve_device(wanted, "cuda") == devices[0]


@pytest.mark.usefixtures("four_gpus")
def test_what_is_no_device_or_not_here_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown device 'gpu1'"):
        hardware.resolve_devices("cuda:0,gpu1", "cuda")
    with pytest.raises(MachineError, match=r"no device cuda:4 here \(found 4 GPUs\)"):
        hardware.resolve_devices("cuda:4", "cuda")


@pytest.mark.usefixtures("four_gpus")
def test_several_evaluations_keep_each_gpu_busy_as_far_as_cores_go(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    assert hardware.evaluations_at_once("auto", ["cuda"]) == Concurrency(28, "a GPU times one")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    too_few = "8 cores for 4 GPUs, 2 for each evaluation"
    assert hardware.evaluations_at_once("auto", ["cuda"]) == Concurrency(4, too_few)
    assert hardware.evaluations_at_once("auto", ["cpp"]) == Concurrency(2, "the processor times one")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1))
    assert hardware.evaluations_at_once("auto", ["cpp"]) == Concurrency(1, "there is one core")


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("memory", "count", "limit"),
    [
        ("81559 MiB", 5, "GPU memory, 14 GiB for each evaluation"),
        ("12288 MiB", 1, "GPU memory, 14 GiB for each evaluation"),
        ("[N/A]", 7, "a GPU times one"),
    ],
)
def test_a_small_gpu_takes_as_many_as_its_memory_holds(tmp_path, monkeypatch, memory, count, limit) -> None:
    (tmp_path / "nvidia-smi").write_text(
        f"#!/bin/sh\necho '0, NVIDIA H100, 580.1, 9.0, GPU-8a1b2c3d, 00000000:18:00.0, {memory}'\n"
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    assert hardware.evaluations_at_once("auto", ["cuda"]) == Concurrency(count, limit)


@pytest.mark.usefixtures("four_gpus")
def test_several_gpus_are_told_apart_by_what_does_not_depend_on_counting() -> None:
    assert [gpu.bus for gpu in hardware.gpus()][3] == "00000000:4B:00.0"
    assert hardware.visible_name("cuda:2") == "GPU-8a1b2c32"


@pytest.mark.usefixtures("four_gpus")
def test_a_state_is_told_by_drivers_that_call_throttling_an_event(tmp_path) -> None:
    assert hardware.gpus()
    (tmp_path / "nvidia-smi").write_text(
        '#!/bin/sh\ncase "$*" in *throttle*) exit 2;; *) echo "1980, 3201, 40, 120.5, 0x0, 97";; esac\n'
    )
    state = hardware.device_state("cuda:0")
    assert state["clocks.sm"] == "1980"
    assert state["clocks_throttle_reasons.active"] == "0x0"


@pytest.mark.usefixtures("four_gpus")
def test_a_gpus_node_has_the_number_that_the_kernel_gave_it(tmp_path) -> None:
    last = hardware.gpus()[3]
    folder = tmp_path / "0000:4b:00.0"
    folder.mkdir()
    (folder / "information").write_text("Model: \t\t NVIDIA H200\nDevice Minor: \t 6\nGPU Excluded:\t No\n")
    assert hardware._minor(last, tmp_path) == 6
    assert hardware._minor(hardware.gpus()[2], tmp_path) == 2


@pytest.mark.parametrize(
    ("told", "passed"),
    [
        ("passive", {"OMP_WAIT_POLICY": "passive"}),
        (" ACTIVE ", {"OMP_WAIT_POLICY": "active"}),
        ("x", {}),
        ("", {}),
    ],
)
def test_only_a_wait_policy_that_exists_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, told: str, passed: dict[str, str]
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", told)
    assert hardware.wait_policy() == passed
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert hardware.wait_policy() == {}


@pytest.mark.usefixtures("four_gpus")
def test_nodes_are_found_where_a_container_keeps_its_hosts_numbers(tmp_path) -> None:
    for name in ("nvidia4", "nvidia5", "nvidia6", "nvidia10", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    nodes = hardware.gpu_nodes("cuda:3", tmp_path)
    assert [node.name for node in nodes] == ["nvidia10", "nvidiactl", "nvidia-uvm"]
    (tmp_path / "nvidia3").touch()
    assert hardware.gpu_nodes("cuda:3", tmp_path)[0].name == "nvidia3"
    assert hardware.gpu_nodes("cpu", tmp_path) == ()


@pytest.mark.usefixtures("four_gpus")
def test_a_gpu_that_is_not_here_is_none() -> None:
    assert [hardware.gpu_of(name) is None for name in ("cpu", "cuda:3", "cuda:4")] == [True, False, True]
