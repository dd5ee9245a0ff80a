"""Runs the commands of one build inside the build sandbox: standard library only, never imported.

Called as `build_script.py JOB OUTPUT REPORT`, three inherited descriptors: the job as JSON, and empty files
for the built library and for the report as JSON.
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
"""Output kept per command, from its beginning, where the first error is."""


def main(job_fd: int, output_fd: int, report_fd: int) -> None:
    """Write the sources, compile them in parallel, link, and return library and logs."""
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
    """Run the commands; only the last of the reported ones may have failed."""
    try:
        write(job["files"])
    except (OSError, ValueError, RecursionError) as error:  # of nested folders
        return [{"argv0": "write", "returncode": 1, "log": f"a source could not be written: {error}"}]
    with ThreadPoolExecutor(max_workers=job["workers"]) as pool:
        steps = list(pool.map(execute, job["compile"]))
    failed = [step for step in steps if step["returncode"] != 0]
    return failed or [*steps, execute(job["link"])]


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")


def execute(argv: list[str]) -> dict[str, Any]:
    """Run one command; a failure to run it is the candidate's, which chooses flags and fills the disk."""
    try:
        returncode, log = run(argv)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PermissionError) and error.filename == argv[0]:
            raise  # the compiler is missing: a fault of the machine
        returncode, log = 1, f"{argv[0]} could not be run: {error}"
    return {"argv0": argv[0], "returncode": returncode, "log": log}


def run(argv: list[str]) -> tuple[int, str]:
    """Exit status and output; output goes to an unnamed file, so that no amount of it fills memory."""
    with tempfile.TemporaryFile(dir=".") as stream:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, check=False
        )
        stream.seek(0)
        return ended.returncode, stream.read(LOG_BYTES).decode("utf-8", "replace")


def deliver(library: Path, output_fd: int) -> list[dict[str, Any]]:
    """Copy the library out; a failure, such as exceeding the size limit, is reported as a step."""
    try:
        with library.open("rb") as source, open(output_fd, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
    except OSError as error:
        return [{"argv0": "deliver", "returncode": 1, "log": f"the built library could not be kept: {error}"}]
    return []


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]))
