"""One `up` a folder, known to all commands beside it while it runs, and forgotten when it does not."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from project import embedded
from project.checkout import CHECKOUT
from project.processes import folder

HOLDER = """
import os, signal, sys
from pathlib import Path
from project.processes import folder
with folder.held(Path(sys.argv[1]), 8123, {"EMAIL_PORT": "2525"}):
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", "")


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    """The sentence says who has the folder, and what to do."""
    with folder.held(tmp_path, 8123, {}):
        with pytest.raises(folder.AlreadyRuns, match=rf"\(pid {os.getpid()}, port 8123\): .* WEIR_HOME"):
            folder.refuse_second(tmp_path)
        with pytest.raises(folder.AlreadyRuns), folder.held(tmp_path, 8124, {}):
            pass
    folder.refuse_second(tmp_path)


def test_to_look_makes_no_folder(tmp_path: Path) -> None:
    """A command that only looks, or an `up` that cannot start, leaves nothing behind."""
    folder.refuse_second(tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/nowhere")])
def test_what_is_no_file_in_place_of_the_lock_is_told(make: Callable[[Path], object], tmp_path: Path) -> None:
    """In a sentence that says what to do; who only looks finds no `up`."""
    make(tmp_path / folder.LOCK)
    assert folder.running(tmp_path) is None
    with pytest.raises(embedded.EmbeddedError, match=r"up\.lock cannot be used .*: remove it"):
        folder.held(tmp_path, 8123, {}).__enter__()


def test_nothing_is_left_of_one_that_was_killed(tmp_path: Path) -> None:
    """The kernel releases the lock: its file, which is still there, says nothing any more."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    found = folder.running(tmp_path)
    assert found is not None
    assert (found.pid, found.port) == (holder.pid, 8123)
    assert folder.decided() == {"EMAIL_PORT": "2525"}
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert folder.running(tmp_path) is None
    assert folder.decided() == {}
    with folder.held(tmp_path, 8124, {}):
        pass


def test_what_it_decided_is_for_its_own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command for another database does not send its e-mails into the catcher of this one."""
    with folder.held(tmp_path, 8123, {"EMAIL_PORT": "2525"}):
        assert folder.decided() == {"EMAIL_PORT": "2525"}
        monkeypatch.setenv("DATABASE_URL", "postgresql://weir@db.example/weir")
        assert folder.decided() == {}


def test_who_looks_is_no_obstacle(tmp_path: Path) -> None:
    """A command that looks holds the lock for a moment: an `up` that starts then waits for it."""
    with folder.held(tmp_path, 8123, {}):
        pass
    looking = (tmp_path / folder.LOCK).open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.1, looking.close).start()
    with folder.held(tmp_path, 8123, {}):
        pass
