"""MkDocs hook: the site's files are the repository's Markdown, in its own folders, and what they link to."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "*.md",
    "agent/**/*.md",
    "evaluator/**/*.md",
    "tests/README.md",
    "tests/benchmarks/README.md",
    "prompts/README.md",
    "reference_problems/README.md",
    "generated/README.md",
)
_LINK = re.compile(r"\]\(([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the guides by all pages, named as in the repository, with the files that they link to."""
    kept = [file for file in files if not file.abs_src_path or ROOT not in Path(file.abs_src_path).parents]
    pages = sorted({page for pattern in SOURCES for page in ROOT.glob(pattern)})
    linked = {target for page in pages for target in _linked(page)}
    named = [File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)) for path in pages]
    named += [
        File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path))
        for path in sorted(linked - set(pages))
    ]
    return Files([*kept, *named])


def _linked(page: Path) -> list[Path]:
    targets = ((page.parent / target).resolve() for target in _LINK.findall(page.read_text("utf-8")))
    return [target for target in targets if target.is_file() and ROOT in target.parents]
