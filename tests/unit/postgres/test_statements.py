"""Statements are read when a process starts."""

import errno
import re
from pathlib import Path
from typing import NoReturn

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

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
        assert words(statements._load(f"weir.{package}".replace("/", "."), name)) == words(text), file


def words(text: str) -> list[str]:
    """Return what PostgreSQL reads of a statement."""
    return re.sub(r"--.*", "", text).split()


# One call of each is work for thousands of rows, or for a page that somebody looks at.
LONG = {"claim", "dispatch", "fetch_list", "overview", "rollup"}


def test_psycopg_remembers_how_it_has_read_a_statement() -> None:
    """It does so of those that are no longer than this; others it reads anew each time."""
    long = {
        name
        for file in FILES
        for package, name in [str(file.relative_to(CHECKOUT).with_suffix("")).split("/sql/")]
        if len(statements._load(f"weir.{package}".replace("/", "."), name)) > MAX_CACHED_STATEMENT_LENGTH
    }
    assert long == LONG
