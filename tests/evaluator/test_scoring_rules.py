"""A number that decides scores changes only together with `SCORING_RULES`, or by a decision that it need not.

`python tests/evaluator/test_scoring_rules.py` pins the numbers as they are once `SCORING_RULES` is raised;
with `--same-rules` it pins a change that moves no status and no speedup, such as a limit of time.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from pathlib import Path

EVALUATOR = Path(__file__).parents[2] / "evaluator"
PIN = Path(__file__).with_suffix(".json")
FOLDERS = ("analysis", "devices", "ipc", "referee")
"""Folders whose policies decide scores; the others bound time, memory and waits."""


def assigned(path: Path) -> dict[str, str]:
    """The constants of a module by name, each as its expression in one canonical layout."""
    found = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = ast.unparse(node.value)
        elif isinstance(node, ast.Assign):
            found |= {ast.unparse(target): ast.unparse(node.value) for target in node.targets}
    return found


def constants() -> dict[str, str]:
    """A short hash of the constants of each policy, by file."""
    files = sorted(path for folder in FOLDERS for path in (EVALUATOR / folder).rglob("policy.py"))
    return {
        path.relative_to(EVALUATOR).as_posix(): hashlib.sha256(
            json.dumps(assigned(path), sort_keys=True).encode()
        ).hexdigest()[:12]
        for path in files
    }


def rules() -> int:
    return int(assigned(EVALUATOR / "schema" / "policy.py")["SCORING_RULES"])


def trouble(pinned: dict[str, object]) -> str:
    """The sentence for whoever changed a constant; empty where nothing did."""
    now, before = constants(), pinned["constants"]
    assert isinstance(before, dict)
    changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    if not changed and rules() == pinned["rules"]:
        return ""
    raised = rules() != pinned["rules"]
    what = f"constants of {', '.join(changed)} changed" if changed else "SCORING_RULES changed"
    command = f"python {PIN.with_suffix('.py').relative_to(EVALUATOR.parent)}"
    if raised:
        return f"{what}; pin them: {command}"
    return (
        f"{what}; raise SCORING_RULES in evaluator/schema/policy.py if a status or a speedup could change, "
        f"then run {command} (with --same-rules if none could)"
    )


def test_numbers_that_decide_scores_change_with_the_rules() -> None:
    said = trouble(json.loads(PIN.read_text("utf-8")))
    assert not said, said


def test_a_changed_number_says_what_to_do() -> None:
    pinned = json.loads(PIN.read_text("utf-8"))
    name = "referee/correctness/policy.py"
    said = trouble(pinned | {"constants": pinned["constants"] | {name: "another"}})
    assert name in said and "raise SCORING_RULES" in said and "--same-rules" in said
    assert "pin them" in trouble(pinned | {"rules": 0})


def pin(arguments: list[str]) -> str:
    pinned = json.loads(PIN.read_text("utf-8")) if PIN.exists() else {"rules": 0, "constants": {}}
    if trouble(pinned) and rules() == pinned["rules"] and "--same-rules" not in arguments:
        return trouble(pinned)
    PIN.write_text(json.dumps({"rules": rules(), "constants": constants()}, indent=2) + "\n", "utf-8")
    return ""


if __name__ == "__main__":
    sys.exit(pin(sys.argv[1:]) or 0)
