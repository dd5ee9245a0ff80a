"""A saved kernel in one's own program: found by its id, only as it was scored, with trust or in a sandbox."""

from __future__ import annotations

import importlib.util
import inspect
import json
import marshal
from pathlib import Path

import pytest
import torch

from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    KernelError,
    SandboxedKernel,
    load_kernel,
    screen_kernel,
)
from kernelwright.evaluator.ipc.tensor_tree import UnsupportedValue

SOURCE = "class ModelNew:\n    answer = 42\n"


def keep(workspace: Path, source: str = SOURCE, *, digits: int = 12) -> Path:
    sha = Candidate(source=source, backend="cpp").sha
    folder = workspace / "generated" / "cpp" / "01_add" / sha[:digits]
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(source)
    (folder / "score.json").write_text(json.dumps({"backend": "cpp", "sha": sha}))
    return folder


def test_a_kernel_is_loaded_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    name = keep(tmp_path).name
    other = keep(tmp_path, "class ModelNew: answer = 43\n").name
    assert load_kernel(name[:8], tmp_path, trust=True).answer == 42
    assert load_kernel(other, tmp_path, trust=True).answer == 43
    assert load_kernel(name[:8], tmp_path, trust=True) is load_kernel(name, str(tmp_path), trust=True)


def test_unknown_and_doubtful_names_say_what_there_is(tmp_path: Path) -> None:
    keep(tmp_path)
    keep(tmp_path, "class ModelNew: answer = 43\n")
    with pytest.raises(ConfigError, match="could be"):
        load_kernel("", tmp_path, trust=True)
    with pytest.raises(ConfigError, match="it holds 2"):
        load_kernel("x", tmp_path, trust=True)


def test_a_changed_source_is_refused_and_never_run(tmp_path: Path) -> None:
    folder = keep(tmp_path)
    (folder / "kernel.py").write_text("raise SystemExit\n")
    with pytest.raises(ConfigError, match="not the source that was scored"):
        load_kernel(folder.name, tmp_path, trust=True)


def test_a_kernel_under_the_id_of_another_is_refused(tmp_path: Path) -> None:
    folder = keep(tmp_path)
    name = folder.name
    folder.rename(tmp_path / "gone")
    keep(tmp_path, "raise SystemExit\n").rename(folder)
    for use in (screen_kernel, load_kernel):
        with pytest.raises(ConfigError, match="holds another kernel"):
            use(name, tmp_path)
    long = keep(tmp_path, "class ModelNew: answer = 44\n", digits=64)
    long.rename(long.with_name(f"{long.name}-0123456789ab"))
    assert load_kernel(long.name, tmp_path, trust=True).answer == 44


def test_a_compiled_file_beside_a_kernel_is_never_run(tmp_path: Path) -> None:
    folder = keep(tmp_path, "class ModelNew:\n    answer = 45\n")
    path = folder / "kernel.py"
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.parent.mkdir()
    # A compiled file that says of itself that nobody need compare it with the source.
    code = marshal.dumps(compile("raise SystemExit", str(path), "exec"))
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code)
    model = load_kernel(folder.name, tmp_path, trust=True)
    assert model.answer == 45
    path.write_text("class ModelNew:\n    answer = 46\n")
    assert inspect.getsource(model) == "class ModelNew:\n    answer = 45\n"


@pytest.mark.parametrize("name", ["kernel.py", "score.json"])
def test_a_damaged_file_is_said_whatever_it_holds(tmp_path: Path, name: str) -> None:
    folder = keep(tmp_path)
    for spoil in (
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: (path.unlink(), path.mkdir()),
    ):
        spoil(folder / name)
        with pytest.raises(ConfigError, match=r"damaged|not the source"):
            load_kernel(folder.name, tmp_path, trust=True)


def test_a_kernel_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    name = keep(tmp_path, "import no_such_module\n").name
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            load_kernel(name, tmp_path, trust=True)


def test_without_a_word_about_trust_nothing_is_run_and_the_screening_is_told(tmp_path: Path) -> None:
    name = keep(tmp_path, "import ctypes\nraise SystemExit\nclass ModelNew: ...\n").name
    for words in ({}, {"trust": True, "sandbox": True}):
        with pytest.raises(ConfigError, match=r"foreign code; read it[^\0]*line 1 +calls libraries by name"):
            load_kernel(name, tmp_path, **words)


def test_a_screening_names_reaches_author_and_scores(tmp_path: Path) -> None:
    source = (
        "import os\n"
        "code = 'int f() { return dlsym(0, \"cublasSgemm\") != 0; }'\n"
        "shy = '__attribute__((no_sanitize(\"address\")))'\n"
        "key = os.environ['KEY']\n"
        "model = Reference().eval()\n"
        "class ModelNew: ...\n"
    )
    folder = keep(tmp_path, source)
    score = json.loads((folder / "score.json").read_text())
    score["provenance"] = {"model": "model-a\x1b[2J\nfake line", "license": None}
    (folder / "score.json").write_text(json.dumps(score))
    screening = screen_kernel(folder.name, tmp_path)
    reaches = {finding.line: finding.message for finding in screening.findings}
    assert {2, 3, 4} == set(reaches)
    assert "sanitizer" in reaches[3]
    assert screening.origin == "model model-a⟨U+001B⟩[2J fake line"
    assert screening.is_scored
    (folder / "kernel.py").write_text(source + "\n")
    assert "NOT the source that was scored" in str(screen_kernel(folder.name, tmp_path))


def test_a_score_decides_precision_and_no_limit_of_its_kernel(tmp_path: Path) -> None:
    folder = keep(tmp_path)
    score = json.loads((folder / "score.json").read_text())
    config = EvaluationConfig(dtype="bf16", sandbox="none", threads=512, limits={"memory_gib": 1e6})
    evaluation = Evaluation(
        status="PASSED",
        stage="decide",
        problem="level1/01_add",
        problem_sha="0",
        candidate_sha=score["sha"],
        backend="cpp",
        config=config,
    )
    score["scores"] = [evaluation.model_dump(mode="json")]
    (folder / "score.json").write_text(json.dumps(score))
    kernel = load_kernel(folder.name, tmp_path, sandbox=True)
    assert kernel.config == EvaluationConfig(dtype="bf16")


MODEL = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

library = load_inline(
    "twice_of_a_saved_kernel", "torch::Tensor twice(torch::Tensor x) {{ return x * 2; }}", functions=["twice"]
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x, how=""):
        if how == "raise":
            raise ValueError("not that")
        if how == "exit":
            import os
            os._exit(3)
        if how == "home":
            import os
            return torch.tensor(float(os.path.exists("{home}")))
        x.add_(1)
        return {{"twice": library.twice(x) + self.weight, "parts": (x, x[0]), "count": x.numel()}}
"""


def test_a_kernel_in_a_sandbox_is_called_like_its_model(shared_cache: Path) -> None:
    kernel = SandboxedKernel(
        Candidate(source=MODEL.format(home=Path(__file__).parent), backend="cpp"), EvaluationConfig()
    )
    with kernel(3, state={"weight": torch.tensor([1.0, 2.0, 3.0])}, cache=shared_cache) as model:
        given = torch.ones(2, 3, requires_grad=True)
        for shape in ((2, 3), (1, 3), (2, 3)):
            found = model(given[: shape[0]])
            assert torch.equal(found["twice"], torch.tensor([5.0, 6.0, 7.0]).expand(shape))
            assert found["parts"][1].shape == (3,)
            assert found["count"] == shape[0] * 3
            found["twice"].zero_()  # a copy of ours
        assert torch.equal(given, torch.ones(2, 3))
        assert model(given, how="home") == 0
        with pytest.raises(KernelError, match="ValueError: not that"):
            model(given, how="raise")
        with pytest.raises(UnsupportedValue, match="cannot be handed over"):
            model(given, how=object())
        assert model(given)["count"] == 6
        with pytest.raises(KernelError, match="exited with 3"):
            model(given, how="exit")
        with pytest.raises(KernelError, match="is gone"):
            model(given)
