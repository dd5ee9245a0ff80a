"""Installs the package of all kernels, tests it, and puts it in the place of references in two small models.

    python tests/benchmarks/package_models.py --out package_models.json
    python tests/benchmarks/package_models.py --device cpu

Needs a GPU: on a CPU every call falls back to the references, so that it only tries the program. The package
is built by `kernelwright package`, installed by pip without network (hatchling must be there) in a temporary
folder and tested by its own tests. A decoder block and a vision block, `support/model_blocks.py`, then call
its models instead of the references': their errors against float64 are compared, and their times, by turns,
with those of the plain block, eager and compiled, all without TF32. At last come calls for which no kernel
was verified, `support/unverified_calls.py`. Exits with status 1 if anything fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import torch
from support.block_comparison import Comparison
from support.model_blocks import BLOCKS
from support.unverified_calls import CALLS, answer

from kernelwright.agent.workspace import Kernel, Workspace
from kernelwright.evaluator import BACKENDS

ROOT: Final = Path(__file__).parents[2]
MODULE: Final = "kept_kernels"
MOST_S: Final = 420
"""Longest time of a process: a kernel's build, the package's tests."""
_FORMS: Final = ("plain", "compiled", "replaced")


def chosen(options: argparse.Namespace) -> list[Kernel]:
    """The kernels to package: those named, or all whose backend's libraries are here (CUDA and Triton)."""
    place = Workspace(options.workspace)
    if options.kernels:
        return [place.kernel(name) for name in options.kernels]
    wanted = {name for name in ("cuda", "triton") if options.device == "cpu" or _is_usable(name)}
    return [kernel for kernel in place.kernels() if kernel.record.backend in wanted]


def _is_usable(backend: str) -> bool:
    return all(find_spec(package.module) for package in BACKENDS[backend].requires)


def install(kernels: list[Kernel], folder: Path, workspace: Path) -> dict[str, Any]:
    """Write the package and install it apart from its source; return the seconds of both."""
    if find_spec("hatchling") is None or find_spec("pip") is None:
        raise SystemExit("the package is built by hatchling and installed by pip: install both")
    began = time.perf_counter()
    source, site = folder / "source", folder / "site"
    command = [sys.executable, "-m", "kernelwright.agent.cli", "package", *(kernel.id for kernel in kernels)]
    command += ["--out", str(source), "--name", MODULE.replace("_", "-"), "--workspace", str(workspace)]
    _run(command, ROOT)
    written = time.perf_counter()
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--quiet"]
    _run([sys.executable, "-m", "pip", "install", *offline, "--target", str(site), str(source)], folder)
    shutil.copytree(source / "tests", folder / "tests")
    return {
        "kernels": len(kernels),
        "problems": len({kernel.record.problem for kernel in kernels}),
        "backends": dict(Counter(kernel.record.backend for kernel in kernels)),
        "write_s": round(written - began, 1),
        "install_s": round(time.perf_counter() - written, 1),
    }


def _run(command: list[str], folder: Path) -> None:
    done = _ended(command, folder, dict(os.environ))
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:5])} … failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def _ended(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, or to the end of its time, which counts as its failure."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=MOST_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"not done after {MOST_S} s")


def fastest(package: ModuleType) -> dict[str, str]:
    """Name of the kernel of each problem whose calls took the least time when they were scored."""
    found: dict[str, tuple[float, str]] = {}
    for name, facts in package.KERNELS.items():
        times = [
            score["measurement"]["candidate"]["median_ms"]
            for score in package.score(name)["scores"]
            if score.get("measurement")
        ]
        mine = min(times, default=float("inf")), name
        found[facts["problem"]] = min(found.get(facts["problem"], mine), mine)
    return {problem: name for problem, (_, name) in found.items()}


def run_its_tests(folder: Path, names: list[str], device: str, processes: int) -> dict[str, Any]:
    """Build the kernels of these names, several at once, and run the package's own tests of them."""
    began = time.perf_counter()
    environment = {**os.environ, "TRUST_KERNELS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])

    def build(name: str) -> str:
        load = f"import {MODULE}; {MODULE}.load({name!r}, trust=True)"
        done = _ended([sys.executable, "-c", load], folder / "site", environment)
        return f"{name} was not built: {done.stderr[-600:]}" if done.returncode else ""

    troubles: list[str] = []
    if device == "cuda":
        with ThreadPoolExecutor(processes) as pool:
            troubles = [trouble for trouble in pool.map(build, names) if trouble]
    built_s = time.perf_counter() - began
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    command += [str(folder / "tests"), "-k", " or ".join(names)]
    if find_spec("xdist") and processes > 2:
        command += ["-n", str(min(4, processes))]
    done = _ended(command, folder / "site", environment)
    if done.returncode:
        troubles.append(f"tests of the package: {done.stdout[-2500:]}{done.stderr[-500:]}")
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    return {
        "kernels": len(names),
        **counts,
        "build_s": round(built_s, 1),
        "tests_s": round(time.perf_counter() - began - built_s, 1),
        "troubles": troubles,
    }


def show(report: dict[str, Any]) -> None:
    """Print the report as Markdown."""
    package, tests = report["package"], report["tests"]
    print(f"{report['device']}, torch {torch.__version__}\n")
    print(
        f"package: {package['kernels']} kernels of {package['problems']} problems, {package['backends']};",
        end=" ",
    )
    print(f"written in {package['write_s']} s, installed in {package['install_s']} s")
    print(f"its tests: { ({key: value for key, value in tests.items() if key != 'troubles'}) }\n")
    print("| block | plain | compiled | with kernels | gain over plain | gain over compiled |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, block in report["blocks"].items():
        times = block["times"]
        cells = [f"{times['ms'][form]:.3f} ms" if form in times["ms"] else "" for form in _FORMS]
        for form in ("plain", "compiled"):
            gain = times.get(f"gain over {form}")
            cells.append(f"{gain['median']:.2f}× ({gain['low']:.2f}–{gain['high']:.2f})" if gain else "")
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n| block | error against float64, plain | compiled | with kernels | equal | answered |")
    print("|---|---:|---:|---:|---|---|")
    for name, block in report["blocks"].items():
        errors = block["errors"]
        cells = [
            f"{errors[form]['rms']:.2e} (max {errors[form]['max']:.1e})" if form in errors else ""
            for form in _FORMS
        ]
        said = "; ".join(f"{each['kernel']}: {each['calls']}" for each in block["dispatched"].values())
        print(f"| {name} | {' | '.join(cells)} | {'yes' if errors['equal'] else 'NO'} | {said} |")
    print("\n| problem | call | answered by | equal |\n|---|---|---|---|")
    for call in report["unverified calls"]:
        equal = "NO" if call["trouble"] else "bitwise" if call["bitwise"] else "within rounding"
        print(f"| {call['problem']} | {call['call']} | {call['answered']} | {equal} |")
    for trouble in report["troubles"]:
        print(f"\nFAILED: {trouble}")
    print(f"\n{report['seconds']:.0f} s, {len(report['troubles'])} failures")


def tested(options: argparse.Namespace, package: ModuleType, used: set[str]) -> list[str]:
    """Names of kernels whose tests are run: those of the blocks first."""
    every = {"blocks": (), "triton": ("triton",), "all": tuple(BACKENDS)}[options.tests]
    more = [name for name, facts in package.KERNELS.items() if facts["backend"] in every]
    return [*sorted(used), *(name for name in more if name not in used)]


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Do everything; kernels are built while baselines are compiled, nothing runs beside what is timed."""
    report: dict[str, Any] = {"package": install(chosen(options), folder, options.workspace)}
    sys.path.insert(0, str(folder / "site"))
    package = importlib.import_module(MODULE)
    assert Path(str(package.__file__)).is_relative_to(folder / "site"), "another package was imported"
    names = fastest(package)
    needed = [problem for block in BLOCKS for problem in block.made.parts]
    if missing := set(needed) - names.keys():
        raise SystemExit(f"the blocks need kernels of {', '.join(sorted(missing))}: add them to --kernels")
    used = {names[problem] for problem in needed}
    processes = max(1, (os.cpu_count() or 2) // 2)
    with ThreadPoolExecutor(1) as beside, torch.no_grad():
        tests: Future[dict[str, Any]] = beside.submit(
            run_its_tests, folder, tested(options, package, used), options.device, processes
        )
        report["troubles"] = []
        comparisons = [Comparison(block, package, names, options.device) for block in BLOCKS]
        for comparison in comparisons:
            report["troubles"] += comparison.compile() if options.compile else []
        report["tests"] = tests.result()
        report["troubles"] += report["tests"]["troubles"]
        report["blocks"] = {}
        for comparison in comparisons:
            found = {"errors": comparison.errors()}
            found["times"] = comparison.times(options.rounds, options.calls)
            found["dispatched"] = comparison.dispatched()
            found["sizes"] = dict(comparison.sizes)
            report["blocks"][comparison.block.name] = found
            report["troubles"] += comparison.troubles(found["errors"])
    report["unverified calls"] = []
    for call in CALLS:
        if call.problem in names:
            name = names[call.problem]
            made = package.drop_in(name, trust=True)
            found = answer(call, made, package.reference(name), options.device)
            if name not in used and f"{MODULE}.{name}.kernel" in sys.modules:
                found["trouble"] = found["trouble"] or "the kernel was loaded"
            report["unverified calls"].append(found)
            report["troubles"] += (
                [f"{call.problem}, {call.what}: {found['trouble']}"] if found["trouble"] else []
            )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--kernels", nargs="+", metavar="ID", help="only these; default: all in CUDA and Triton"
    )
    parser.add_argument("--workspace", type=Path, default=ROOT, help="the folder with `generated/`")
    parser.add_argument(
        "--tests", choices=("blocks", "triton", "all"), default="blocks", help="whose tests run"
    )
    parser.add_argument("--rounds", type=int, default=40, help="timed turns")
    parser.add_argument("--calls", type=int, default=3, help="calls of a turn")
    compiled = argparse.BooleanOptionalAction
    parser.add_argument("--compile", action=compiled, help="a compiled baseline too; default: on a GPU")
    parser.add_argument("--out", type=Path, help="a file for all figures, as JSON")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("needs a CUDA device; --device cpu tries the program with fallbacks alone")
    options.compile = options.device == "cuda" if options.compile is None else options.compile
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as held:
        os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(Path(held) / "extensions"))
        report = measure(options, Path(held))
    report["device"] = torch.cuda.get_device_name() if options.device == "cuda" else "CPU, fallbacks alone"
    report["seconds"] = round(time.perf_counter() - began, 1)
    show(report)
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 1 if report["troubles"] else 0


if __name__ == "__main__":
    sys.exit(main())
