"""Models of a package call the kernel where it was verified, and the reference everywhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.agent.interop.package_writer import write_package
from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import problem_from_source
from kernelwright.evaluator.schema.evaluation import Verification

if TYPE_CHECKING:
    from tests.agent.conftest import Make

REFERENCE = """import torch

ROWS = 6
FEATURES = 4
SHAPES = {"small": {"ROWS": 3}, "odd": {"FEATURES": 5}, "wide": {"ROWS": 8}}


class Model(torch.nn.Module):
    def __init__(self, features, scale=2.0):
        super().__init__()
        self.scale = scale
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.register_buffer("shift", torch.randn(features))
        self.inner = torch.nn.Identity()

    def forward(self, x, y=None):
        return self.inner(x * self.weight * self.scale + self.shift)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
"""
KERNEL = (
    REFERENCE.partition("SHAPES")[0]
    + "class ModelNew"
    + REFERENCE.partition("class Model")[2]
    .partition("def get_inputs")[0]
    .replace("+ self.shift", "- self.shift")
)
"""A kernel whose sign is wrong: who has answered shows in the answer."""

BEGIN = """
import copy
import torch
import my_kernels

torch.manual_seed(0)
Model = my_kernels.drop_in(NAME, trust=True)
plain, model = my_kernels.reference(NAME).Model(4), Model(4)
model.load_state_dict(plain.state_dict())


def by_kernel(x, model=model, plain=plain, **more):
    with torch.no_grad():
        actual, expected = model(x, **more), plain(x, **more)
        other = expected - 2 * plain.shift if x.dtype == plain.shift.dtype else expected
    if torch.equal(actual, expected):
        return False
    assert torch.allclose(actual, other)
    return True


x = torch.randn(6, 4)
assert by_kernel(x) and model.calls == {"kernel": 1}
"""


def run(folder: Path, make: Make, script: str, *, source: str = KERNEL, **verified: object) -> None:
    problem = problem_from_source(REFERENCE, "level1/01_scale_shift")
    fields: dict[str, object] = {"other_sizes": {"small": "PASSED", "odd": "PASSED", "wide": "WRONG_VALUES"}}
    facts = {"trials": 1, "distributions": [], "weights": "seed", "parameters": "seed", "error_ratio": 1.0}
    verification = Verification.model_validate({**facts, "limit_ratio": 2.0, **fields, **verified})
    evaluation = make.evaluation(problem=problem, source=source)
    evaluation = evaluation.model_copy(update={"verification": verification})
    kernel = Workspace(folder).keep(source, evaluation, Provenance())
    (name,) = write_package([kernel], {problem.sha: problem}, "my-kernels", folder / "package")
    script = BEGIN.replace("NAME", repr(name)) + script if "drop_in" not in script else script
    command = [sys.executable, "-c", script.replace("NAME", repr(name))]
    done = subprocess.run(command, cwd=folder / "package", check=False, timeout=120, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_inputs_that_were_not_verified_are_answered_by_the_reference(tmp_path: Path, make: Make) -> None:
    script = """
for other, reason in (
    (torch.randn(7, 4), "other shapes"),
    (torch.randn(8, 4), "other shapes"),
    (torch.randn(2, 3, 4), "other shapes"),
    (torch.randn(4, 6).T, "other shapes"),
    (torch.randn(1, 4).expand(6, 4), "other shapes"),
    (torch.randn(6, 4, dtype=torch.float64), "other shapes"),
    (torch.randn(6, 8)[:, :4], "other shapes"),
    (torch.randn(25)[1:].view(6, 4), "not aligned"),
):
    model.calls.clear()
    assert not by_kernel(other) and reason in str(model.calls), model.calls
"""
    run(tmp_path, make, script)


def test_verified_sizes_are_answered_by_the_kernel(tmp_path: Path, make: Make) -> None:
    script = """
assert by_kernel(torch.randn(3, 4))
assert not by_kernel(torch.randn(3, 4), y=1.0) and "other shapes" in str(model.calls)
wide, other = Model(5), my_kernels.reference(NAME).Model(5)
other.load_state_dict(wide.state_dict())
assert by_kernel(torch.randn(6, 5), wide, other)
assert not by_kernel(torch.randn(3, 5), wide, other)
with torch.no_grad():
    model.calls.clear()
    assert torch.equal(model(x=x), model(x)) and model.calls == {"kernel": 2}
"""
    run(tmp_path, make, script)


def test_models_unlike_the_verified_one_are_answered_by_the_reference(tmp_path: Path, make: Make) -> None:
    script = """
for args in ((4, 3.0), (4, 2)):
    other, same = Model(*args), my_kernels.reference(NAME).Model(*args)
    other.load_state_dict(same.state_dict())
    assert not by_kernel(x, other, same) and "constructor" in str(other.calls)
model.scale = plain.scale = 3.0
assert not by_kernel(x) and "settings" in str(model.calls)
model.scale = plain.scale = 2.0
assert by_kernel(x)
hook = model.inner.register_forward_hook(lambda *_: None)
assert not by_kernel(x) and "hooks" in str(model.calls)
hook.remove()
inner, model.inner = model.inner, torch.nn.Sequential()
assert not by_kernel(x) and "modules" in str(model.calls)
model.inner = inner
assert by_kernel(x.clone(), model.eval(), plain.eval())
with torch.autocast("cpu", torch.bfloat16):
    assert not by_kernel(x) and "autocast" in str(model.calls)
model.double(), plain.double()
assert not by_kernel(x.double()) and "other parameters" in str(model.calls)
"""
    run(tmp_path, make, script)


def test_gradients_are_the_references_own(tmp_path: Path, make: Make) -> None:
    script = """
model(x).sum().backward()
plain(x).sum().backward()
assert torch.equal(model.weight.grad, plain.weight.grad) and "gradients" in str(model.calls)
"""
    run(tmp_path, make, script)


def test_weights_of_a_model_reach_its_kernel_however_they_change(tmp_path: Path, make: Make) -> None:
    script = """
with torch.no_grad():
    model.weight.mul_(2), plain.weight.mul_(2)
assert by_kernel(x)
model.weight = plain.weight = torch.nn.Parameter(torch.randn(4))
model.shift = plain.shift = torch.randn(4)
assert by_kernel(x)
twin = copy.deepcopy(model)
assert by_kernel(x, twin, copy.deepcopy(plain)) and twin.calls == {"kernel": 1}
with torch.no_grad():
    twin.weight.zero_()
assert by_kernel(x) and not torch.equal(twin.weight, model.weight)
assert list(model.state_dict()) == list(plain.state_dict())
fresh, state = Model(4), torch.get_rng_state()
with torch.no_grad():
    fresh(x)
assert fresh.calls == {"kernel": 1} and torch.equal(torch.get_rng_state(), state)
"""
    run(tmp_path, make, script)


def test_a_kernel_that_cannot_be_built_leaves_every_call_to_the_reference(tmp_path: Path, make: Make) -> None:
    script = """
import warnings, torch, my_kernels

model = my_kernels.drop_in(NAME, trust=True)(4)
with warnings.catch_warnings(record=True) as seen, torch.no_grad():
    warnings.simplefilter("always")
    x = torch.randn(6, 4)
    assert torch.equal(model(x), model(x))
assert len(seen) == 1 and "cannot be loaded here (OSError)" in str(seen[0].message), seen
assert sum(model.calls.values()) == 2 and not model.calls["kernel"]
try:
    my_kernels.drop_in(NAME)
except PermissionError as refusal:
    assert "is foreign code: read it" in str(refusal)
else:
    raise AssertionError("trusted unasked")
"""
    run(tmp_path, make, script, source='raise OSError("no compiler")\n')


def test_a_kernel_that_may_take_inputs_for_granted_answers_nothing(tmp_path: Path, make: Make) -> None:
    script = """
import torch, my_kernels

model = my_kernels.drop_in(NAME, trust=True)(4)
with torch.no_grad():
    model(torch.randn(6, 4))
assert "for granted" in str(model.calls) and not model.calls["kernel"]
"""
    run(tmp_path, make, script, constant_inputs=["input 0"])
