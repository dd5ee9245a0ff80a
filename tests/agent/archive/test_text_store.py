"""Content-addressed texts: whole or absent, checked when read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.agent.archive import ArchiveError
from kernelwright.agent.archive.text_store import TextStore
from kernelwright.agent.records.attempt_log import INLINE_BYTES, TextRef


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters()), times=st.sampled_from([1, 1000]))
def test_any_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, text: str, times: int
) -> None:
    texts = TextStore(tmp_path_factory.mktemp("texts"), sync=False)
    assert texts.get(texts.put(text * times)) == text * times


def test_short_texts_stay_in_the_line_and_long_ones_go_to_a_file(tmp_path: Path) -> None:
    texts = TextStore(tmp_path)
    assert texts.put("x" * INLINE_BYTES) == "x" * INLINE_BYTES
    ref = texts.put("x" * (INLINE_BYTES + 1))
    assert isinstance(ref, TextRef)
    assert ref.size == INLINE_BYTES + 1
    assert texts.path(ref).read_text() == "x" * (INLINE_BYTES + 1)


def test_broken_unicode_never_gets_into_a_line(tmp_path: Path) -> None:
    ref = TextStore(tmp_path).put("\ud800")
    assert isinstance(ref, TextRef)
    assert TextStore(tmp_path).get(ref) == "\ud800"


def test_equal_texts_share_one_file(tmp_path: Path) -> None:
    texts = TextStore(tmp_path)
    assert texts.put("y" * 5000) == texts.put("y" * 5000)
    assert len(list(tmp_path.glob("*/*.txt"))) == 1


def test_a_damaged_or_missing_file_is_said(tmp_path: Path) -> None:
    texts = TextStore(tmp_path)
    ref = texts.put("z" * 5000)
    assert isinstance(ref, TextRef)
    texts.path(ref).write_text("z" * 4999)
    with pytest.raises(ArchiveError, match="damaged"):
        texts.get(ref)
    texts.path(ref).unlink()
    with pytest.raises(ArchiveError, match="missing"):
        texts.get(ref)


def test_what_a_killed_writer_left_half_written_is_discarded(tmp_path: Path) -> None:
    texts = TextStore(tmp_path)
    texts.put("a" * 5000)
    leftover = tmp_path / "pending" / "half"
    leftover.write_text("a")
    texts.discard_pending()
    assert not leftover.exists()
