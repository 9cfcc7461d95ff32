"""Statements are read when a process starts."""

import errno
from pathlib import Path
from typing import NoReturn

import pytest

from project.checkout import CHECKOUT
from weir.postgres import statements

APPS = ("notifications", "ratelimit", "workers")
FILES = [file for app in APPS for file in (CHECKOUT / app).rglob("*.sql")]


def no_descriptor_left(*_arguments: object, **_options: object) -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


def test_no_statement_is_read_once_the_apps_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has run out of file descriptors still executes every statement."""
    texts = {file: file.read_text().replace("::user_key", "::bigint") for file in FILES}
    assert len(texts) > 150
    monkeypatch.setattr(Path, "read_text", no_descriptor_left)
    for file, text in texts.items():
        package, name = str(file.relative_to(CHECKOUT).with_suffix("")).split("/sql/")
        assert statements._load(f"weir.{package}".replace("/", "."), name) == text, file
