"""Builds realistic candidates and compares with torch's plain `load_inline`, interleaved, in one run.

    python tests/benchmarks/build.py             C++ candidates
    python tests/benchmarks/build.py --cuda      CUDA candidates, for the GPU of this machine
    python tests/benchmarks/build.py --jobs 4    four candidates at once, each with as many neighbours
    python tests/benchmarks/build.py --parity    with lean headers and with torch's own: equal outputs?

Prints one line a candidate (which headers built it, wall and processor seconds, the ratio to plain
`load_inline`, whether the outputs are right) and, last, the medians and the coverage of the lean headers.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from kernelwright.evaluator.building.build_request import BuildOutcome, BuildRequest  # noqa: E402
from kernelwright.evaluator.building.builder import Builder  # noqa: E402
from kernelwright.evaluator.sandbox import Launcher, strongest  # noqa: E402
from kernelwright.evaluator.schema.config import SandboxTier  # noqa: E402


class Captured(Exception):
    """Carries a candidate's build request out of its import."""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def capture(path: Path) -> BuildRequest:
    """The request a candidate makes when it is imported."""
    from kernelwright.evaluator.contestant import load_inline_shim

    def catch(fields: dict[str, Any]) -> dict[str, Any]:
        raise Captured(BuildRequest.model_validate(fields))

    load_inline_shim.install(catch)
    try:
        load(path)
    except Captured as captured:
        request: BuildRequest = captured.args[0]
        return request
    raise AssertionError(f"{path} builds nothing")


def wrong(module: ModuleType) -> list[int]:
    """Which of a candidate's own checks fail."""
    import torch

    loose = (torch.float16, torch.bfloat16)
    return [
        number
        for number, (actual, expected) in enumerate(module.check())
        if not torch.allclose(
            actual.double(), expected.double(), rtol=1e-2 if actual.dtype in loose else 2e-3, atol=2e-3
        )
    ]


def run_plain(path: Path) -> None:
    """In a process of its own: torch's `load_inline`, timed without the import of torch."""
    import torch.utils.cpp_extension

    del torch
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    module = load(path)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu_s": used, "wrong": wrong(module) if usable(path) else None}))


def run_check(path: Path, library: str, module_name: str) -> None:
    """In a process of its own: the candidate over a library that was built before."""
    from kernelwright.evaluator.contestant import load_inline_shim

    load_inline_shim.install(lambda _: {"ok": True, "path": library, "module_name": module_name, "log": ""})
    print(json.dumps({"wrong": wrong(load(path))}))


def run_outputs(path: Path, library: str, module_name: str, target: str) -> None:
    """In a process of its own: what the candidate computes over a library, from the same random numbers."""
    import torch

    from kernelwright.evaluator.contestant import load_inline_shim

    load_inline_shim.install(lambda _: {"ok": True, "path": library, "module_name": module_name, "log": ""})
    torch.manual_seed(0)
    torch.save([actual.cpu() for actual, _ in load(path).check()], target)
    print(json.dumps({}))


def usable(path: Path) -> bool:
    import torch

    return path.name.startswith("cpp") or torch.cuda.is_available()


def child(*arguments: str) -> dict[str, Any]:
    """This script in another mode, in a process and an extensions folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {
            "TORCH_EXTENSIONS_DIR": folder,
            "TORCH_NO_COMPILER_WRAPPER": "1",
            "PATH": path,
        }
        command = [sys.executable, str(Path(__file__)), *arguments]
        ended = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, stdin=subprocess.DEVNULL
        )
    try:
        answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"error": (ended.stderr or ended.stdout).strip()[-400:]}
    return answer


def architecture() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (9, 0)
    return f"sm_{major}{minor}"


def measure(
    path: Path, request: BuildRequest, builder: Builder, *, plain: bool, plain_first: bool, usable: bool
) -> dict[str, Any]:
    """One candidate, built by us and, if asked, by torch; run afterwards where that is `usable`."""
    target = architecture() if path.name.startswith("cuda") else None
    result: dict[str, Any] = {"candidate": path.stem}
    torchs: dict[str, Any] = {}
    if plain and plain_first:
        torchs = child("--plain-one", str(path))
    outcome = builder.build(request, architecture=target, timeout_s=600)
    if plain and not plain_first:
        torchs = child("--plain-one", str(path))
    build = outcome.build
    result |= {"tier": build.tier, "ok": build.ok, "seconds": build.seconds, "cpu_s": build.cpu_seconds}
    if torchs:
        result["plain"] = torchs
        if "seconds" in torchs and build.ok:
            result["ratio"] = torchs["seconds"] / build.seconds
            result["cpu_ratio"] = torchs["cpu_s"] / max(build.cpu_seconds, 0.01)
    if not build.ok:
        result["log"] = build.log[:1500]
    elif usable:
        result["wrong"] = check(path, outcome)
    return result


def check(path: Path, outcome: BuildOutcome) -> Any:
    answer = child("--check-one", str(path), str(outcome.shared_object), outcome.build.name)
    return answer.get("wrong", answer.get("error"))


def differing(path: Path, builder: Builder, folder: Path) -> str:
    """How outputs differ between lean headers and torch's own; empty when they are the same bits."""
    import torch

    target = architecture() if path.name.startswith("cuda") else None
    outputs = []
    for real in (False, True):
        request = capture(path).model_copy(update={"full_headers": real})
        outcome = builder.build(request, architecture=target, timeout_s=600)
        if outcome.shared_object is None:
            return f"does not build: {outcome.build.log[:300]}"
        if outcome.build.tier != ("full" if real else "lean"):
            return ""
        written = folder / f"{path.stem}-{real}.pt"
        said = child("--outputs-one", str(path), str(outcome.shared_object), outcome.build.name, str(written))
        if "error" in said:
            return str(said["error"])
        outputs.append(torch.load(written))
    wrong = [
        number
        for number, (one, other) in enumerate(zip(*outputs, strict=True))
        if one.dtype != other.dtype or not torch.equal(one.nan_to_num(7.5), other.nan_to_num(7.5))
    ]
    return f"outputs {wrong} differ" if wrong else ""


def show(result: dict[str, Any]) -> None:
    plain = result.get("plain", {})
    columns = [
        f"{result['candidate']:34s} {result['tier']:5s} {'ok' if result['ok'] else 'FAILED':6s}",
        f"{result['seconds']:6.2f} s {result['cpu_s']:6.2f} cpu",
    ]
    if "seconds" in plain:
        columns.append(f"plain {plain['seconds']:6.1f} s {plain['cpu_s']:6.1f} cpu")
    if "ratio" in result:
        columns.append(f"{result['ratio']:5.1f}x wall {result['cpu_ratio']:5.1f}x cpu")
    if result.get("wrong"):
        columns.append(f"WRONG {result['wrong']}")
    if "error" in plain:
        columns.append(f"plain failed: {plain['error'][-120:]!r}")
    print(" | ".join(columns), flush=True)
    if not result["ok"]:
        print(result["log"], flush=True)


def summarise(results: list[dict[str, Any]]) -> dict[str, Any]:
    built = [result for result in results if result["ok"]]
    lean = [result for result in built if result["tier"] == "lean"]
    compared = [result for result in built if "ratio" in result]
    summary: dict[str, Any] = {
        "candidates": len(results),
        "built": len(built),
        "lean": len(lean),
        "coverage": round(len(lean) / max(len(results), 1), 3),
        "wrong": [result["candidate"] for result in results if result.get("wrong")],
        "median_seconds": statistics.median(result["seconds"] for result in built) if built else None,
        "median_cpu_s": statistics.median(result["cpu_s"] for result in built) if built else None,
    }
    if compared:
        summary |= {
            "compared": len(compared),
            "median_ratio": statistics.median(result["ratio"] for result in compared),
            "median_cpu_ratio": statistics.median(result["cpu_ratio"] for result in compared),
            "median_plain_s": statistics.median(result["plain"]["seconds"] for result in compared),
        }
    return summary


def choose_sandbox(wanted: str | None) -> SandboxTier:
    return SandboxTier(wanted) if wanted else strongest(None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuda", action="store_true", help="CUDA candidates instead of C++ ones")
    parser.add_argument("--only", default="", help="regular expression over candidate names")
    parser.add_argument(
        "--plain", type=int, default=None, help="compare only so many, spread evenly; 0 for none"
    )
    parser.add_argument("--jobs", type=int, default=1, help="candidates at once; neighbours slow both sides")
    parser.add_argument("--no-check", action="store_true", help="do not run what was built")
    parser.add_argument("--sandbox", default=None, help="sandbox tier, `none` where there is no other")
    parser.add_argument("--cache", type=Path, default=None, help="keep the toolbox here between runs")
    parser.add_argument("--json", type=Path, default=None, help="write everything measured here")
    parser.add_argument("--parity", action="store_true", help="compare outputs under both kinds of headers")
    parser.add_argument("--outputs-one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--plain-one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--check-one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain_one:
        run_plain(options.plain_one)
    elif options.check_one:
        run_check(Path(options.check_one[0]), *options.check_one[1:])
    elif options.outputs_one:
        run_outputs(Path(options.outputs_one[0]), *options.outputs_one[1:])
    elif options.parity:
        sys.exit(cross_build(options))
    else:
        compare(options)


def chosen(options: argparse.Namespace) -> list[Path]:
    kind = "cuda" if options.cuda else "cpp"
    paths = sorted((HERE / "candidates").glob(f"{kind}_*.py"))
    return [path for path in paths if re.search(options.only, path.stem)]


def cross_build(options: argparse.Namespace) -> int:
    found = {}
    with tempfile.TemporaryDirectory() as folder, Launcher() as launcher:
        cache = options.cache or Path(folder) / "cache"
        builder = Builder(cache=cache, launcher=launcher, tier=choose_sandbox(options.sandbox))
        for path in chosen(options):
            found[path.stem] = differing(path, builder, Path(folder))
            print(f"{path.stem:34s} {found[path.stem] or 'the same'}", flush=True)
    return int(any(found.values()))


def compare(options: argparse.Namespace) -> None:
    paths = chosen(options)
    count = len(paths) if options.plain is None else min(options.plain, len(paths))
    compared = {paths[number * len(paths) // count] for number in range(count)} if count else set()
    with tempfile.TemporaryDirectory() as folder, Launcher() as launcher:
        cache = options.cache or Path(folder) / "cache"
        shutil.rmtree(cache / "entries", ignore_errors=True)
        builder = Builder(cache=cache, launcher=launcher, tier=choose_sandbox(options.sandbox))
        started = time.monotonic()
        print(f"lean headers ready: {builder.prepare()} ({time.monotonic() - started:.1f} s)", flush=True)
        requests = [capture(path) for path in paths]
        checked = [usable(path) and not options.no_check for path in paths]

        def one(number: int) -> dict[str, Any]:
            path = paths[number]
            result = measure(
                path,
                requests[number],
                builder,
                plain=path in compared,
                plain_first=bool(number % 2),
                usable=checked[number],
            )
            show(result)
            return result

        with ThreadPoolExecutor(options.jobs) as at_once:
            results = list(at_once.map(one, range(len(paths))))
    summary = summarise(results)
    print(json.dumps(summary))
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "results": results}, indent=1))


if __name__ == "__main__":
    main()
