"""The byte code that is written once is what pytest would write."""

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests import byte_code

FAILS = "def test_it():\n    assert len('ab') == {}\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the source of a test; byte code is written, whatever this process may do."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    made = tmp_path / "test_it.py"
    made.write_text(FAILS.format(3))
    return made


def test_pytest_reads_it(source: Path) -> None:
    """Its assertions say what they compared."""
    byte_code.write_for([source])
    [written] = source.parent.glob(f"__pycache__/*{rewrite.PYC_TAIL}")
    assert rewrite._read_pyc(source, written)
    assert b"@pytest_ar" in written.read_bytes()


def test_what_has_changed_is_written_anew(source: Path) -> None:
    byte_code.write_for([source])
    source.write_text(FAILS.format(4))
    byte_code.write_for([source])
    [written] = source.parent.glob("__pycache__/*")
    assert rewrite._read_pyc(source, written)
