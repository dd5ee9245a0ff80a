"""Loads a saved kernel for use in one's own model: in this process, trusted, or in a sandbox.

No evaluation uses this. A saved kernel is foreign code: it passed in a sandbox, where it may have shown
another face. The source is checked against the hash it was scored under; what it needs is compiled now.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.evaluator.analysis.screening_report import KernelScreening, screen_source
from kernelwright.evaluator.evaluator import Evaluator
from kernelwright.evaluator.host.files import read_regular
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import ConfigError
from kernelwright.evaluator.schema.evaluation import Evaluation

if TYPE_CHECKING:
    from kernelwright.evaluator.ipc.remote_model import RemoteModel

GENERATED = "generated"


def load_kernel(
    name: str, workspace: Path | str = ".", *, trust: bool = False, sandbox: bool = False
) -> Any:  # Any: a class of torch.nn.Module, unimported here, or a `SandboxedKernel`
    """The `ModelNew` of the kernel that an id or the unmistakable beginning of one names.

    With `trust`, its class: it runs in this process with all your rights, so read it and its screening first.
    With `sandbox`, a `SandboxedKernel`, which is called like the class and needs no trust.

    Raises:
        ConfigError: neither or both; no such kernel, several, or a source that was not scored.
    """
    saved = _find(name, Path(workspace) / GENERATED)
    screening = saved.screening()
    if not screening.is_scored:
        raise ConfigError(f"{saved.path} is not the source that was scored; restore it")
    if trust == sandbox:
        raise ConfigError(
            f"{saved.path} is foreign code; read it, then pass trust=True to run it with all your rights, or "
            f"sandbox=True to run it in a process that has none, but not both\n{screening}"
        )
    if trust:
        return _load(f"kernelwright_kept_{screening.sha[:32]}", saved.path, saved.candidate.source)
    config = EvaluationConfig()
    return SandboxedKernel(
        saved.candidate, config.on_terms_of(saved.scores[-1].config) if saved.scores else config
    )


def screen_kernel(name: str, workspace: Path | str = ".") -> KernelScreening:
    """Screen a saved kernel without running it; raises what `load_kernel` raises of names."""
    return _find(name, Path(workspace) / GENERATED).screening()


@dataclass(frozen=True, slots=True)
class SandboxedKernel:
    """A saved kernel whose models live in a sandbox; call it with the arguments of `ModelNew`."""

    candidate: Candidate
    config: EvaluationConfig
    """Its precision is that of its score; limits and threads are the caller's, the default ones if loaded."""

    def __call__(
        self,
        *args: Any,
        state: Mapping[str, Any] | None = None,
        device: str | None = None,
        cache: Path | None = None,
        **kwargs: Any,
    ) -> RemoteModel:  # Any: arguments and tensors, torch unimported here
        """Start a process and construct the model there; `state` is a `state_dict`, such as the reference's.

        The model is called without gradients, with tensors, numbers, strings and containers of them. It gets
        copies, and copies of its outputs come back on its device. It has no parameters, hooks or `to` here;
        closing it, which `with` does, ends its process.

        Raises:
            ConfigError, MachineError: no such device, no sandbox, or no compiler here.
            KernelError: the kernel raised, or its process ended.
        """
        from kernelwright.evaluator.ipc.remote_model import RemoteModel

        config = self.config.model_copy(update={"device": device or "auto", "sandbox": None})
        timeout_s = config.limits.load_s + config.limits.call_s + config.limits.compile_s
        with ExitStack() as undo:
            evaluator = undo.enter_context(Evaluator(cache=cache))
            process = evaluator.start_kernel(self.candidate, config)

            def end() -> str:
                reason = process.end()
                evaluator.close()
                return reason

            model = undo.enter_context(RemoteModel(process.channel, process.build, end, timeout_s=timeout_s))
            model.open(process.device, process.setup, self.candidate.source)
            model.construct(args, kwargs, state=state, dtype=config.dtype.torch_name)
            undo.pop_all()
        return model


@dataclass(frozen=True, slots=True)
class _SavedKernel:
    path: Path
    candidate: Candidate
    sha: str
    """The hash that was scored."""
    scores: tuple[Evaluation, ...]
    origin: dict[str, object]

    def screening(self) -> KernelScreening:
        return screen_source(self.candidate, self.sha, self.scores, self.origin)


def _find(name: str, generated: Path) -> _SavedKernel:
    folders = sorted(path.parent for path in generated.glob("*/*/*/kernel.py"))
    fits = [folder for folder in folders if folder.name == name]
    fits = fits or [folder for folder in folders if folder.name.startswith(name)]
    if len(fits) == 1:
        return _read(fits[0])
    if fits:
        raise ConfigError(f"{name!r} could be {', '.join(str(folder) for folder in fits)}")
    raise ConfigError(f"no saved kernel {name!r} below {generated}; it holds {len(folders)}")


def _read(folder: Path) -> _SavedKernel:
    try:
        source = read_regular(folder / "kernel.py").decode("utf-8", "surrogatepass")
        score = json.loads(read_regular(folder / "score.json"))
        saved = _SavedKernel(
            path=folder / "kernel.py",
            candidate=Candidate(source=source, backend=score["backend"]),
            sha=score["sha"],
            scores=tuple(Evaluation.model_validate(one) for one in score.get("scores", ())),
            origin=dict(score.get("provenance", {})),
        )
        is_named = saved.sha.startswith(folder.name.partition("-")[0] or "-")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"a file of {folder} is missing or damaged; restore it") from error
    if not is_named:
        raise ConfigError(f"{folder} holds another kernel, {saved.sha[:12]}; restore it")
    return saved


def _load(module_name: str, path: Path, source: str) -> type[Any]:  # Any: see above
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None:
            raise ConfigError(f"{path} is not Python")
        module = importlib.util.module_from_spec(spec)
        # The text that was hashed: a file may change or declare an encoding, and a loader prefers a compiled
        # one in `__pycache__`.
        # Triton, which reads the source of its functions, gets it from here too.
        code = compile(source, path, "exec")
        linecache.cache[str(path)] = len(source), None, source.splitlines(keepends=True), str(path)
        # Before it runs: what compiles kernels from Python source looks the module up by its name.
        sys.modules[module_name] = module
        try:
            exec(code, module.__dict__)
        except BaseException:
            del sys.modules[module_name]
            raise
    model: type[Any] = module.ModelNew
    return model
