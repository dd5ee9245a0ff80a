"""Writes rows as JSON Lines, and as Parquet where asked; every file appears with its first row."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TextIO

from kernelwright.agent.datasets.export_settings import UnusableExport
from kernelwright.agent.datasets.write.features import Config, Feature, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

JSONL: Final = "jsonl"
PARQUET: Final = "parquet"

_ROWS: Final = 64
"""Rows Parquet holds back; they are long."""


class _File(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class Tables:
    """The files of a dataset: one for each table, split and form. Use it as a context manager."""

    def __init__(self, folder: Path, configs: tuple[Config, ...], *, parquet: bool) -> None:
        """Nothing is written before the first row.

        Raises:
            UnusableExport: Parquet is asked for and pyarrow is not installed.
        """
        self.counts: Counter[tuple[str, str]] = Counter()
        """Rows by table and split."""
        self._folder = folder
        self._configs = {config.name: config for config in configs}
        self._forms = (JSONL, PARQUET) if parquet else (JSONL,)
        self._open: dict[tuple[str, str], list[_File]] = {}
        if parquet:
            need_pyarrow()

    def write(self, config: str, split: str, row: Row) -> None:
        """Add a row to a table.

        Raises:
            ValueError: its columns are not those of the table.
            OSError: it cannot be written.
        """
        features = self._configs[config].features
        if row.keys() != features.keys():
            raise ValueError(f"columns of {config}: {sorted(row.keys() ^ features.keys())} differ")
        files = self._open.get((config, split))
        if files is None:
            place = self._folder / config
            place.mkdir(exist_ok=True, parents=True)
            files = self._open[config, split] = [
                _JsonLines(place / f"{split}.{JSONL}")
                if form == JSONL
                else _Parquet(place / f"{split}.{PARQUET}", features)
                for form in self._forms
            ]
        for file in files:
            file.write(row)
        self.counts[config, split] += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for files in self._open.values():
            for file in files:
                file.close()


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("x", encoding="utf-8", newline="\n")

    def write(self, row: Row) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()


class _Parquet:
    def __init__(self, path: Path, features: Mapping[str, Feature]) -> None:
        arrow = need_pyarrow()
        self._table = arrow.Table
        self._schema = arrow.schema([(name, _arrow(feature)) for name, feature in features.items()])
        self._writer = arrow.parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[Row] = []

    def write(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= _ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._table.from_pylist(self._waiting, schema=self._schema))
            self._waiting = []


def need_pyarrow() -> Any:  # Any: pyarrow is optional and has no types
    """The module.

    Raises:
        UnusableExport: it is not installed.
    """
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise UnusableExport(
            "--parquet needs pyarrow; install it with: pip install 'kernelwright[export]'"
        ) from None


def _arrow(feature: Feature) -> Any:  # Any: see above
    arrow = need_pyarrow()
    match feature:
        case list():
            (item,) = feature
            return arrow.list_(_arrow(item))
        case dict():
            return arrow.struct([(name, _arrow(inner)) for name, inner in feature.items()])
        case "bool":
            return arrow.bool_()
        case _:
            return getattr(arrow, feature)()
