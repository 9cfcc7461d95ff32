"""What is written once, byte code and constants, is what pytest and Hypothesis would write."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.assertion import rewrite
from hypothesis import configuration
from hypothesis.internal import constants_ast

from project import checkout
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


def test_hypothesis_reads_constants_that_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what can be tested, not of tests."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(configuration, "__hypothesis_home_directory", tmp_path)
    byte_code.write_for([Path(byte_code.__file__), Path(checkout.__file__)])
    [written] = (tmp_path / "constants").iterdir()
    monkeypatch.setattr(constants_ast, "_constants_from_source", lambda source, **_: source)
    imported = ModuleType(checkout.__name__)  # Hypothesis remembers what it has read of the module itself
    imported.__file__ = checkout.__file__
    assert constants_ast.constants_from_module(imported) == written.read_bytes()
