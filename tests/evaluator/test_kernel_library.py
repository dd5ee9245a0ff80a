"""A saved kernel in one's own program: found by its id, only as it was scored, with trust or in a sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    EvaluationConfig,
    KernelError,
    SandboxedKernel,
    load_kernel,
    screen_kernel,
)
from kernelwright.evaluator.ipc.tensor_tree import UnsupportedValue

SOURCE = "class ModelNew:\n    answer = 42\n"


def keep(workspace: Path, name: str, source: str = SOURCE) -> Path:
    folder = workspace / "generated" / "cpp" / "01_add" / name
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(source)
    sha = Candidate(source=source, backend="cpp").sha
    (folder / "score.json").write_text(json.dumps({"backend": "cpp", "sha": sha}))
    return folder


def test_a_kernel_is_loaded_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    keep(tmp_path, "abc123")
    keep(tmp_path, "abd456", "class ModelNew: answer = 43\n")
    assert load_kernel("abc", tmp_path, trust=True).answer == 42
    assert load_kernel("abd456", tmp_path, trust=True).answer == 43
    assert load_kernel("abc", tmp_path, trust=True) is load_kernel("abc123", str(tmp_path), trust=True)


def test_unknown_and_doubtful_names_say_what_there_is(tmp_path: Path) -> None:
    keep(tmp_path, "abc123")
    keep(tmp_path, "abd456")
    with pytest.raises(ConfigError, match="could be"):
        load_kernel("ab", tmp_path, trust=True)
    with pytest.raises(ConfigError, match="it holds 2"):
        load_kernel("x", tmp_path, trust=True)


def test_a_changed_source_is_refused_and_never_run(tmp_path: Path) -> None:
    folder = keep(tmp_path, "abc123")
    (folder / "kernel.py").write_text("raise SystemExit\n")
    with pytest.raises(ConfigError, match="not the source that was scored"):
        load_kernel("abc", tmp_path, trust=True)


def test_a_kernel_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    keep(tmp_path, "abc123", "import no_such_module\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            load_kernel("abc", tmp_path, trust=True)


def test_without_a_word_about_trust_nothing_is_run_and_the_screening_is_told(tmp_path: Path) -> None:
    keep(tmp_path, "abc123", "import ctypes\nraise SystemExit\nclass ModelNew: ...\n")
    for words in ({}, {"trust": True, "sandbox": True}):
        with pytest.raises(ConfigError, match=r"foreign code; read it[^\0]*line 1 +calls libraries by name"):
            load_kernel("abc", tmp_path, **words)


def test_a_screening_names_reaches_author_and_scores(tmp_path: Path) -> None:
    source = (
        "import os\n"
        "code = 'int f() { return dlsym(0, \"cublasSgemm\") != 0; }'\n"
        "shy = '__attribute__((no_sanitize(\"address\")))'\n"
        "key = os.environ['KEY']\n"
        "model = Reference().eval()\n"
        "class ModelNew: ...\n"
    )
    folder = keep(tmp_path, "abc123", source)
    score = json.loads((folder / "score.json").read_text())
    score["provenance"] = {"model": "model-a\x1b[2J\nfake line", "license": None}
    (folder / "score.json").write_text(json.dumps(score))
    screening = screen_kernel("abc", tmp_path)
    reaches = {finding.line: finding.message for finding in screening.findings}
    assert {2, 3, 4} == set(reaches)
    assert "sanitizer" in reaches[3]
    assert screening.origin == "model model-a [2J fake line"
    assert screening.is_scored
    (folder / "kernel.py").write_text(source + "\n")
    assert "NOT the source that was scored" in str(screen_kernel("abc", tmp_path))


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
