"""Runs the commands of one build inside the build sandbox: standard library only, imported by nobody.

Called as `inside.py JOB OUTPUT REPORT`, three inherited descriptors: the job as JSON, an empty file for the
built library, and an empty file for the report as JSON.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LOG_BYTES = 400_000
"""Compiler output kept per command: the head, where the first error is."""


def main(job_fd: int, output_fd: int, report_fd: int) -> None:
    """Write the sources, compile them side by side, link, and hand library and logs back."""
    with open(job_fd, encoding="utf-8") as stream:
        job = json.load(stream)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        os.chdir(folder)
        steps = build(job)
        if steps[-1]["returncode"] == 0:
            steps += deliver(Path(job["output"]), output_fd)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(report_fd, "w", encoding="utf-8") as stream:
        json.dump({"steps": steps, "cpu_s": used.ru_utime + used.ru_stime}, stream)


def build(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Reports of the commands that ran; the last one failed, or it is the link and did not."""
    try:
        write(job["files"])
    except (OSError, ValueError, RecursionError) as error:  # folders are made one within another
        return [{"argv0": "write", "returncode": 1, "log": f"a source could not be written: {error}"}]
    with ThreadPoolExecutor(max_workers=job["workers"]) as pool:
        steps = list(pool.map(execute, job["compile"]))
    failed = [step for step in steps if step["returncode"] != 0]
    return failed or [*steps, execute(job["link"])]


def write(files: dict[str, str]) -> None:
    """Lay the files out below the current folder."""
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")


def execute(argv: list[str]) -> dict[str, Any]:
    """Run one command; a failure to run it is the candidate's, who decides its words and fills the disk."""
    try:
        returncode, log = run(argv)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PermissionError) and error.filename == argv[0]:
            raise  # no such compiler, which is nobody's fault
        returncode, log = 1, f"{argv[0]} could not be run: {error}"
    return {"argv0": argv[0], "returncode": returncode, "log": log}


def run(argv: list[str]) -> tuple[int, str]:
    """Exit status and output; output goes to a file, so that no flood of it can fill memory.

    The file has no name: one of the candidate's could bear it.
    """
    with tempfile.TemporaryFile(dir=".") as stream:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, check=False
        )
        stream.seek(0)
        return ended.returncode, stream.read(LOG_BYTES).decode("utf-8", "replace")


def deliver(library: Path, output_fd: int) -> list[dict[str, Any]]:
    """Copy the library out; a failure (it is larger than the limit) is a step of its own."""
    try:
        with library.open("rb") as source, open(output_fd, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
    except OSError as error:
        return [{"argv0": "deliver", "returncode": 1, "log": f"the built library could not be kept: {error}"}]
    return []


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]))
