"""Writes rows as JSON Lines, and as Parquet where wanted; every file appears with its first row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO

from kernelwright.agent.datasets.policy import PARQUET_ROWS
from kernelwright.agent.datasets.write.columns import DatasetTable, Feature, Row
from kernelwright.agent.records.atomic_folder import UnusableExport

JSONL: Final = "jsonl"
PARQUET: Final = "parquet"


class RowFiles:
    """The files of a dataset, one for each table, split and form."""

    def __init__(
        self,
        folder: Path,
        tables: tuple[DatasetTable, ...],
        counts: Counter[tuple[str, str]],
        *,
        parquet: bool,
    ) -> None:
        """Count rows by table and split in `counts`; nothing is written before the first row.

        Raises:
            UnusableExport: Parquet is wanted and pyarrow is not installed.
        """
        self._counts = counts
        self._folder = folder
        self._tables = {table.name: table for table in tables}
        self._parquet = parquet
        self._open: dict[tuple[str, str], tuple[TextIO, _Parquet | None]] = {}
        if parquet:
            need_pyarrow()

    def write(self, table: str, split: str, row: Row) -> None:
        """Add a row to a table.

        Raises:
            ValueError: its columns are not those of the table.
            OSError: it cannot be written.
        """
        features = self._tables[table].features
        if row.keys() != features.keys():
            raise ValueError(f"columns of {table}: {sorted(row.keys() ^ features.keys())} differ")
        if (table, split) not in self._open:
            place = self._folder / table
            place.mkdir(exist_ok=True, parents=True)
            self._open[table, split] = (
                (place / f"{split}.{JSONL}").open("x", encoding="utf-8", newline="\n"),
                _Parquet(place / f"{split}.{PARQUET}", features) if self._parquet else None,
            )
        lines, parquet = self._open[table, split]
        lines.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
        if parquet:
            parquet.write(row)
        self._counts[table, split] += 1

    def close(self) -> None:
        """Write what waits, and close every file."""
        for lines, parquet in self._open.values():
            lines.close()
            if parquet:
                parquet.close()


class _Parquet:
    def __init__(self, path: Path, features: Mapping[str, Feature]) -> None:
        arrow = need_pyarrow()
        self._table = arrow.Table
        # Times are texts in rows; the cast to the schema reads them.
        self._strings, self._schema = (
            arrow.schema([(name, _arrow(feature, time)) for name, feature in features.items()])
            for time in (arrow.string(), arrow.timestamp("ms", "UTC"))
        )
        self._writer = arrow.parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[Row] = []

    def write(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= PARQUET_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = self._table.from_pylist(self._waiting, schema=self._strings).cast(self._schema)
            self._writer.write_table(table)
            self._waiting = []


def need_pyarrow() -> Any:  # Any: pyarrow is optional and has no types
    """The module pyarrow; raises UnusableExport where it is not installed."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise UnusableExport(
            "--parquet needs pyarrow; install it with: pip install 'kernelwright[export]'"
        ) from None


def _arrow(feature: Feature, time: Any) -> Any:  # Any: see above
    arrow = need_pyarrow()
    match feature:
        case list():
            (item,) = feature
            return arrow.list_(_arrow(item, time))
        case dict():
            return arrow.struct([(name, _arrow(inner, time)) for name, inner in feature.items()])
        case "timestamp":
            return time
        case "bool":
            return arrow.bool_()
        case _:
            return getattr(arrow, feature)()
