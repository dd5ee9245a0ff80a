"""The image and the recipes for clusters: what they copy exists, their commands parse, nobody is root."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import check_command, name

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "agent" / "guides" / "containers.md"
FOLDER = GUIDE.with_suffix("")
SCRIPTS = sorted(FOLDER.glob("*.sh"))
RECIPES = (*SCRIPTS, FOLDER / "kuberay.yaml")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, continued lines joined."""
    text = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def arguments(instruction: str) -> list[str]:
    return [words for name, words in instructions() if name == instruction]


def document(name: str) -> Any:  # the shape is the file's
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def test_the_image_begins_at_a_named_release() -> None:
    (base,) = (words.partition("=")[2] for words in arguments("ARG") if words.startswith("BASE="))
    assert arguments("FROM") == ["${BASE}"]
    for image in (base, document("compose.yaml")["services"]["gpu"]["build"]["args"]["BASE"]):
        assert re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+", image)
        assert image in GUIDE.read_text("utf-8") or image == base


def test_everything_that_the_image_copies_exists() -> None:
    sources = [word for words in arguments("COPY") for word in words.split()[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    packed = {
        path for path in wheel["only-include"] if not any(path.startswith(f"{one}/") for one in sources)
    }
    assert packed <= set(sources)


def test_the_image_runs_as_a_user_of_a_number_who_may_write_the_volume_only() -> None:
    names = [name for name, _ in instructions()]
    (user,) = arguments("USER")
    assert int(user) > 0
    assert "RUN" not in names[names.index("USER") :]
    (volume,) = arguments("VOLUME")
    written = re.findall(r"(KERNELWRIGHT_\w+)=(/\S+)", " ".join(arguments("ENV")))
    assert {name for name, _ in written} >= {
        "KERNELWRIGHT_CACHE",
        "KERNELWRIGHT_SERVICE_STATE",
        "KERNELWRIGHT_WORKSPACE",
    }
    assert all(Path(path).is_relative_to(volume) for _, path in written)


def test_a_command_in_the_image_leaves_no_daemon_behind() -> None:
    assert "KERNELWRIGHT_NO_DAEMON=1" in arguments("ENV")


def test_the_image_keeps_no_lists_caches_or_secrets() -> None:
    for words in arguments("RUN"):
        assert "apt-get install" not in words or "rm -rf /var/lib/apt/lists/*" in words
        assert "pip install" not in words or "--no-cache-dir" in words
    text = " ".join(words for _, words in instructions()).lower()
    assert not re.search(r"token|secret|password|api_key", text)


def test_the_image_installs_what_setup_asks_for() -> None:
    asked = set(re.findall(r"need (\S+)$", (ROOT / ".ci" / "setup").read_text("utf-8"), re.M))
    installed = {word for words in arguments("RUN") for word in words.split()}
    assert asked
    assert asked <= installed


def test_extras_of_the_image_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"\bEXTRAS=([\w,]+)", GUIDE.read_text("utf-8") + " ".join(arguments("ARG")))
    assert {extra for one in named for extra in one.split(",")} <= set(extras)


def test_the_services_may_do_nothing_but_make_sandboxes() -> None:
    services = document("compose.yaml")["services"]
    assert set(services) == {"cpu", "gpu"}
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
        assert "no-new-privileges:true" in service["security_opt"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert (FOLDER / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).samefile(FOLDER / "Dockerfile")


def test_the_guides_flags_are_those_of_compose() -> None:
    service = document("compose.yaml")["services"]["cpu"]
    guide = GUIDE.read_text("utf-8")
    for option in service["security_opt"]:
        assert f"--security-opt {option.removesuffix(':true')}" in guide
    for folder in service["tmpfs"]:
        assert f"--tmpfs {folder}" in guide


def test_workers_of_kubernetes_are_restricted() -> None:
    job = document("kuberay.yaml")
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["authOptions"]["mode"] == "token"
    (workers,) = cluster["workerGroupSpecs"]
    pods = [group["template"]["spec"] for group in (cluster["headGroupSpec"], workers)]
    assert all(pod["securityContext"]["runAsUser"] == int(arguments("USER")[0]) for pod in pods)
    (worker,) = workers["template"]["spec"]["containers"]
    assert worker["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not worker["securityContext"]["allowPrivilegeEscalation"]


@pytest.mark.parametrize("script", SCRIPTS, ids=name)
def test_scripts_parse_and_stop_at_errors(script: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    done = subprocess.run([bash, "-n", str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "\nset -euo pipefail\n" in script.read_text("utf-8")


@pytest.mark.parametrize("recipe", RECIPES, ids=name)
def test_commands_of_recipes_exist(recipe: Path) -> None:
    text = recipe.read_text("utf-8").replace("\\\n", " ")
    found = re.findall(r"(?<![\w/.-])(kernelwright (?:run|serve|cluster)\b[^\n'&]*)", text)
    assert found
    for line in found:
        words = [word.replace("$PORT", "8080") for word in shlex.split(line, comments=True) if word != "$@"]
        check_command(words, whole=True)


def test_the_guide_names_every_recipe() -> None:
    guide = GUIDE.read_text("utf-8")
    assert all(f"(containers/{path.name})" in guide for path in FOLDER.iterdir())
