"""Every prompt is compared with a golden file; `KERNELWRIGHT_UPDATE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import pytest

from kernelwright.agent.extraction.extract import Rule, extract
from kernelwright.agent.prompting.hardware_facts import Hardware, find_target
from kernelwright.agent.prompting.prompts import Setting, TemplatePrompts, installed_prompts
from kernelwright.agent.strategies import Exemplar, Prompts
from kernelwright.evaluator import (
    BACKENDS,
    Backend,
    ConfigError,
    Dtype,
    Evaluation,
    EvaluationConfig,
    Math,
    Problem,
    ProblemSignature,
    Status,
    TensorFacts,
)
from kernelwright.evaluator.schema.evaluation import (
    Attribution,
    Build,
    Finding,
    Interval,
    Measurement,
    Mismatch,
    Plausibility,
    Sanitization,
    Stage,
    Timing,
    Verification,
)
from kernelwright.evaluator.schema.kernel_resources import KernelResources

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts"
FOLDER = installed_prompts()
GUIDES = sorted(path.name.removesuffix(".md.j2") for path in (FOLDER / "backends").iterdir())

CPU = Hardware(
    kind="cpu",
    name="A Processor",
    architecture="x86_64, AVX2, FMA",
    multiprocessors=8,
    l1_kib=32,
    l2_mib=1,
    l3_mib=32,
    memory_gb=64,
)
PROBLEM = Problem(
    id="level1/99_scaled_sum",
    source='''"""Sum of scaled rows."""

import torch
from torch import nn

ROWS = 4096


class Model(nn.Module):
    def forward(self, x):
        return (3 * x).sum(dim=1)


def get_inputs():
    return [torch.randn(ROWS, 512)]


def get_init_inputs():
    return []
''',
    shapes={"small": {"ROWS": 64}},
)
FACTS = ProblemSignature(
    problem=PROBLEM.id,
    problem_sha=PROBLEM.sha,
    inputs=(TensorFacts(name="x", dtype="float32", shape=(4096, 512)),),
    outputs=(TensorFacts(name="", dtype="float32", shape=(4096,)),),
    bytes_moved=8_404_992,
    flops=4_194_304,
)
CODE = '''import torch
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void scale(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * y[i];
}
"""
built = load_inline("scale", cuda_sources=source, functions=["scale"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.scale(x)
'''


def backend(name: str) -> Backend:
    device = "cpu" if name == "cpp" else "cuda"
    return Backend(name=name, device=device, language=name.upper(), fence="python")


def prompts(math: Math = Math.FP32, dtype: Dtype = Dtype.AS_IS, shapes: str | None = None) -> TemplatePrompts:
    setting = Setting(
        config=EvaluationConfig(math=math, dtype=dtype, shapes=shapes),
        hardware={"cuda": find_target("h200", FOLDER), "cpu": CPU},
        versions={"torch": "2.11.0", "CUDA": "13.0"},
        facts={PROBLEM.id: FACTS},
    )
    return TemplatePrompts(FOLDER, setting)


def timing(median_ms: float) -> Timing:
    return Timing(median_ms=median_ms, spread_ms=0.01, turns=12, calls=120, outer_ms=median_ms, clock="inner")


def measured(candidate_ms: float) -> Measurement:
    baselines = {"eager": timing(1.2), "compile": timing(0.8)}
    return Measurement(
        candidate=timing(candidate_ms),
        baselines=baselines,
        speedups={name: baseline.median_ms / candidate_ms for name, baseline in baselines.items()},
        against="compile",
        speedup=0.8 / candidate_ms,
        interval=Interval(low=0.78 / candidate_ms, high=0.82 / candidate_ms),
        calls_per_batch=10,
        ring_slots=4,
    )


def evaluation(status: Status, stage: Stage = Stage.VERIFY, **fields: object) -> Evaluation:
    return Evaluation.model_validate(
        {
            "status": status,
            "stage": stage,
            "problem": PROBLEM.id,
            "problem_sha": PROBLEM.sha,
            "candidate_sha": "0" * 64,
            "backend": "cuda",
            "config": EvaluationConfig(),
            **fields,
        }
    )


def build(**fields: object) -> Build:
    known = {"name": "scale", "key": "k", "tier": "lean", "cached": False, "seconds": 3.0, "ok": False}
    return Build.model_validate(known | fields)


def wrong(**fields: object) -> Verification:
    mismatch = {
        "output": "",
        "trial": "as_drawn",
        "wrong": 512,
        "total": 65536,
        "first_indices": ((3, 96), (3, 97)),
        "expected": (1.25, -0.5),
        "actual": (0.0, 0.0),
        "max_abs_error": 3.5,
        "error_ratio": 2.1e6,
        "limit_ratio": 48.0,
        "pattern": "columns 96 to 127 of every 128: a tile edge",
    }
    return Verification(
        trials=3,
        distributions=("as_drawn",),
        weights="none",
        parameters="none",
        error_ratio=None,
        limit_ratio=48.0,
        mismatch=Mismatch.model_validate(mismatch | fields),
    )


LOG = """/tmp/build/scale/cuda.cu(7): error: identifier "factor" is undefined
      if (i < n) y[i] = factor * y[i];
                        ^

1 error detected in the compilation of "/tmp/build/scale/cuda.cu".
"""
TRACEBACK = """Traceback (most recent call last):
  File "/tmp/job/candidate.py", line 15, in forward
    return built.scale(x)
TypeError: scale(): incompatible function arguments
"""
WORK = Plausibility(bytes_moved=800_000_000, flops=200_000_000)
BEATEN = WORK.model_copy(update={"speed_of_light": 6.8})

EVALUATIONS: dict[str, Evaluation] = {
    "passed_memory": evaluation(
        Status.PASSED, Stage.DECIDE, measurement=measured(0.5), plausibility=WORK, speedup=1.6
    ),
    "passed_near_the_limit": evaluation(
        Status.PASSED, Stage.DECIDE, measurement=measured(0.18), plausibility=WORK, speedup=4.4
    ),
    "passed_near_the_limit_behind_a_baseline": evaluation(
        Status.PASSED,
        Stage.DECIDE,
        measurement=measured(0.92),
        plausibility=WORK.model_copy(update={"speed_of_light": 0.86}),
        speedup=0.87,
    ),
    "passed_beyond_the_dense_form": evaluation(
        Status.PASSED,
        Stage.DECIDE,
        measurement=measured(0.3),
        plausibility=WORK.model_copy(update={"speed_of_light": 1.37, "dense": True}),
        speedup=2.7,
    ),
    "passed_beyond_the_reference": evaluation(
        Status.PASSED, Stage.DECIDE, measurement=measured(0.3), plausibility=BEATEN, speedup=2.7
    ),
    "passed_arithmetic_by_library": evaluation(
        Status.PASSED,
        Stage.DECIDE,
        measurement=measured(4.0),
        plausibility=WORK.model_copy(update={"flops": 100_000_000_000}),
        attribution=Attribution(
            track="mixed", kernels=("library: ampere_sgemm_128x64_nn", "own: scale(float*, int)")
        ),
        builds=(
            build(
                ok=True,
                resources=(
                    KernelResources(kernel="_Z5scalePfi", registers=10, shared_bytes=2048, stack_bytes=0),
                    KernelResources(kernel="_ZN1a4tileEPf", registers=168, shared_bytes=0, stack_bytes=1200),
                ),
            ),
        ),
        speedup=0.2,
    ),
    "passed_launch": evaluation(Status.PASSED, Stage.DECIDE, measurement=measured(0.006), speedup=1.1),
    "passed_untimed": evaluation(Status.PASSED, Stage.DECIDE),
    "no_code": evaluation(Status.NO_CODE, Stage.SCREEN, detail="syntax_error: line 7: invalid syntax"),
    "no_code_at_all": evaluation(Status.NO_CODE, Stage.SCREEN, detail="no_model_new"),
    "truncated": evaluation(Status.TRUNCATED, Stage.SCREEN, detail="length"),
    "rejected": evaluation(
        Status.REJECTED,
        Stage.SCREEN,
        detail="the module defines no ModelNew at its top level",
        findings=(Finding(rule="contract", line=3, message="ModelNew is inside a function", fatal=True),),
    ),
    "compile_error": evaluation(
        Status.COMPILE_ERROR,
        Stage.BUILD,
        detail="extension scale did not build",
        builds=(build(log=LOG, notes=("-arch=sm_80 was dropped: the build sets the architecture",)),),
    ),
    "refused_flag": evaluation(
        Status.COMPILE_ERROR, Stage.BUILD, builds=(build(log="flag -wrapper is not allowed"),)
    ),
    "runtime_error": evaluation(
        Status.RUNTIME_ERROR, detail="TypeError: scale(): incompatible", traceback=TRACEBACK
    ),
    "runtime_crash": evaluation(
        Status.RUNTIME_ERROR, detail="killed by signal 11", output_tail="tile 3\ntile 4\n```\n"
    ),
    "wrong_at_edges": evaluation(Status.WRONG_VALUES, verification=wrong()),
    "wrong_everywhere": evaluation(
        Status.WRONG_VALUES, verification=wrong(wrong=65500, output='["logits"]', pattern="everything")
    ),
    "wrong_by_rounding": evaluation(
        Status.WRONG_VALUES, verification=wrong(trial="zero_mean", wrong=60000, error_ratio=900.0, pattern="")
    ),
    "wrong_places": evaluation(
        Status.WRONG_VALUES,
        verification=wrong(wrong=17, expected=(7.0, 9.0), actual=(8.0, 6.0), error_ratio=math.inf),
    ),
    "wrong_by_remembering": evaluation(
        Status.WRONG_VALUES, verification=wrong(trial="near_duplicate", wrong=3)
    ),
    "wrong_with_other_weights": evaluation(Status.WRONG_VALUES, verification=wrong(trial="other_weights")),
    "wrong_with_larger_weights": evaluation(Status.WRONG_VALUES, verification=wrong(trial="larger_weights")),
    "nondeterministic": evaluation(Status.NONDETERMINISTIC, verification=wrong(wrong=17)),
    "nondeterministic_untold": evaluation(Status.NONDETERMINISTIC, detail="bits differ between calls"),
    "wrong_shape": evaluation(Status.WRONG_SHAPE, detail="output has shape [4096, 1], expected [4096]"),
    "wrong_dtype": evaluation(Status.WRONG_DTYPE, detail="output is float64, expected float32"),
    "race": evaluation(
        Status.RACE,
        Stage.SANITIZE,
        detail="racecheck found a hazard",
        sanitization=Sanitization(
            ran=True,
            convicts=Status.RACE,
            tools=("racecheck",),
            findings=("Race between write at /tmp/b/k.cu:31 and read at k.cu:35",),
        ),
    ),
    "memory_error": evaluation(Status.MEMORY_ERROR, Stage.SANITIZE, detail="read of 4 bytes out of bounds"),
    "input_mutated": evaluation(Status.INPUT_MUTATED, detail="input 0 was changed"),
    "timed_out_building": evaluation(Status.TIMED_OUT, Stage.BUILD, detail="300 s"),
    "timed_out_running": evaluation(Status.TIMED_OUT, detail="30 s"),
    "out_of_memory": evaluation(Status.OUT_OF_MEMORY, detail="16 GiB"),
    "tampered": evaluation(Status.TAMPERED, Stage.TIME, detail="its clock disagrees with ours"),
    "implausible": evaluation(
        Status.IMPLAUSIBLE, Stage.DECIDE, detail="0.01 ms, at least 0.17 ms are needed"
    ),
}


def agrees_with_golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.md"
    if os.environ.get("KERNELWRIGHT_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.is_file(), f"no golden file {path}; run with KERNELWRIGHT_UPDATE_GOLDEN=1 and read its diff"
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("name", GUIDES)
def test_system_prompts(name: str) -> None:
    agrees_with_golden(f"system_{name}", prompts().render_system(backend(name)))


@pytest.mark.parametrize("math", [Math.TF32, Math.BF16])
def test_system_prompts_under_other_policies(math: Math) -> None:
    agrees_with_golden(f"system_cuda_{math.value}", prompts(math).render_system(backend("cuda")))


def test_system_prompt_without_a_known_target() -> None:
    text = TemplatePrompts(FOLDER).render_system(backend("cuda"))
    assert "Not known; write for a current GPU" in text


def test_task_prompts() -> None:
    agrees_with_golden("task", prompts().render_task(PROBLEM, backend("cuda")))
    agrees_with_golden(
        "task_small_bf16", prompts(dtype=Dtype.BF16, shapes="small").render_task(PROBLEM, backend("cpp"))
    )
    shown: list[Exemplar] = [
        Exemplar(code=CODE, evaluation=EVALUATIONS["passed_memory"]),
        Exemplar(code=CODE, evaluation=EVALUATIONS["passed_untimed"].model_copy(update={"problem": "other"})),
    ]
    agrees_with_golden("task_with_kernels", prompts().render_task(PROBLEM, backend("cuda"), shown))


@pytest.mark.parametrize("name", EVALUATIONS)
def test_feedback_prompts(name: str) -> None:
    has_code = EVALUATIONS[name].status not in (Status.NO_CODE, Status.TRUNCATED)
    agrees_with_golden(f"feedback/{name}", prompts().feedback(EVALUATIONS[name], CODE if has_code else None))


def test_every_status_has_a_feedback() -> None:
    assert {one.status for one in EVALUATIONS.values()} == set(Status)


def test_prompts_are_what_strategies_expect() -> None:
    book: Prompts = prompts()
    system, task = book.opening(PROBLEM, "cuda")
    assert (system.role, task.role) == ("system", "user")
    assert book.feedback(EVALUATIONS["race"], CODE, None).startswith("Your kernel has a data race")


def test_unknown_names_and_broken_templates_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown backend 'fortran'"):
        prompts().opening(PROBLEM, "fortran")
    with pytest.raises(ConfigError, match="no shapes named 'huge'"):
        prompts(shapes="huge").opening(PROBLEM, "cuda")
    with pytest.raises(ConfigError, match="cannot read"):
        TemplatePrompts(tmp_path).opening(PROBLEM, "cuda")
    own = shutil.copytree(FOLDER, tmp_path / "own", ignore=shutil.ignore_patterns("recordings"))
    (own / "task.md.j2").write_text("{{ nothing_called_this }}")
    with pytest.raises(ConfigError, match="nothing_called_this"):
        TemplatePrompts(own).opening(PROBLEM, "cuda")


def test_every_guide_has_an_example_that_is_a_module() -> None:
    for name in GUIDES:
        source = (FOLDER / "examples" / f"{name}.py").read_text("utf-8")
        extraction = extract(f"```python\n{source}```", finish_reason="stop")
        assert (extraction.rule, extraction.code) == (Rule.LAST_BLOCK, source)


def test_every_backend_has_a_guide() -> None:
    assert set(BACKENDS) <= set(GUIDES)
