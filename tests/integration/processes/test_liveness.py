"""The file by which an orchestrator sees that a process' loop turns."""

import os
from pathlib import Path

import pytest
from pytest_django import Settings
from structlog.testing import capture_logs

from weir.workers.processes import liveness
from weir.workers.processes.liveness import LivenessFile
from weir.workers.processes.presence import Presence

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    """Return the folder of the files, which does not exist yet."""
    settings.WEIR_LIVENESS_DIR = str(tmp_path / "weir" / "alive")
    return tmp_path / "weir" / "alive"


def test_a_heartbeat_touches_the_file_of_the_process(folder: Path) -> None:
    """At most once in two seconds; the folder is created."""
    file = LivenessFile(name="fetcher/1@host")
    file.touch()
    path = folder / "fetcher_1@host"
    os.utime(path, (1, 1))
    file.touch()
    assert path.stat().st_mtime == 1
    file._touched_at -= 2.0
    file.touch()
    assert path.stat().st_mtime > 1


def test_a_process_that_ends_in_order_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat that comes after it brings none back, however much later."""
    monkeypatch.setattr(liveness, "EVERY_S", 0.0)
    known = Presence(kind="worker", name="worker@host")
    known.show_life()
    assert [path.name for path in folder.iterdir()] == ["worker@host"]
    known.end()
    known.show_life()
    assert list(folder.iterdir()) == []


def test_without_a_folder_nothing_is_written(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is the default; nor in the folder in which the process runs."""
    monkeypatch.chdir(tmp_path)
    settings.WEIR_LIVENESS_DIR = ""
    file = LivenessFile(name="worker@host")
    file.touch()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stops no process."""
    monkeypatch.setattr(liveness, "EVERY_S", 0.0)
    (tmp_path / "file").touch()
    settings.WEIR_LIVENESS_DIR = str(tmp_path / "file" / "below")
    file = LivenessFile(name="worker@host")
    with capture_logs() as entries:
        file.touch()
        file.touch()
    assert [entry["event"] for entry in entries] == ["liveness_not_shown"]


def test_the_end_of_a_process_without_a_file_is_no_news(folder: Path, settings: Settings) -> None:
    """Somebody may have removed it, or it was never written; where it cannot be removed, the process ends anyway."""
    with capture_logs() as entries:
        LivenessFile(name="worker@host").remove()
    assert entries == []
    folder.parent.mkdir(exist_ok=True)
    folder.touch()
    settings.WEIR_LIVENESS_DIR = str(folder / "below")
    with capture_logs() as entries:
        LivenessFile(name="worker@host").remove()
    assert [entry["event"] for entry in entries] == ["liveness_not_shown"]
