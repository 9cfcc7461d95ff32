"""`manage.py up` and `manage.py demo`, as people run them: what they show, and that they leave nothing behind."""

import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from project import embedded
from project.checkout import CHECKOUT
from tests.forked import Forked
from tests.waiting import in_time, wait_for
from weir.workers import schedule

MANAGE = [sys.executable, str(CHECKOUT / "manage.py")]
MANAGE_PY = "import runpy; runpy.run_path('manage.py', run_name='__main__')"  # for what a fork becomes
STOPS_WITHIN_S = 5.0
FIELDS = {
    *("fetched", "failed", "failed_on_purpose", "sites", "early_starts", "shortest_gap_ratio", "used_share"),
    *("lateness_p50_ms", "lateness_p99_ms"),
    *("notified", "marked_read", "unread_reads", "unread_flushes", "unread_rows_written", "unread_drift"),
    *("shipped", "emails_sent", "emails_failed", "emails_unknown"),
    *("emails_received_twice", "emails_never_received", "mailers_killed"),
}
# Runs a command with its standard input, a terminal, as the one that Ctrl-C comes from.
AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder for servers, which PostgreSQL's user can reach also when we are root; nothing of it stays."""
    folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
    folder.chmod(0o711)
    try:
        yield folder / "home"
    finally:
        embedded.discard(folder / "home")
        shutil.rmtree(folder)


def processes_of(home: Path) -> list[str]:
    """Return the processes that use this home: by their environment or, as the servers have none, command line."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if process.environ().get("WEIR_HOME") == str(home) or any(str(home) in word for word in words):
                found.append(" ".join(words))
        except psutil.Error:
            continue
    return found


class Terminal:
    """A terminal of 120 x 40 with a command in it."""

    def __init__(self, command: list[str]) -> None:
        self.text = ""
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_A_TERMINAL, *command],
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        self._theirs = theirs
        self._attributes = termios.tcgetattr(theirs)

    def shows(self, words: str) -> bool:
        """Read what was written until now; tell whether these words ever were."""
        while select.select([self._ours], [], [], 0)[0]:
            self.text += os.read(self._ours, 65_536).decode(errors="replace")
        return words in self.text

    def press_ctrl_c(self) -> None:
        """Let the terminal send SIGINT to all that runs in its foreground."""
        os.write(self._ours, b"\x03")

    def is_as_before(self) -> bool:
        """Tell whether the cursor is there, and input is echoed as it was."""
        is_visible = self.text.rfind(SHOW_CURSOR) > self.text.rfind(HIDE_CURSOR)
        return is_visible and termios.tcgetattr(self._theirs) == self._attributes

    def close(self) -> None:
        """End what is left in it."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.mark.alone
def test_the_headless_demo_gives_its_figures_and_no_request_comes_early(home: Path) -> None:
    """Real workers on fresh servers fetch from two dozen sites; stdout is JSON, and the sites' log decides.

    Meanwhile each unread count that users ask for is that of their rows, and beat has deltas flushed. Orders are
    shipped, and by the mail server's list no e-mail comes twice, though workers that send them are killed.
    """
    demo = subprocess.run(
        ["make", "demo", f"ARGS=--headless --duration 8 --json - --home {home}"],  # as README says
        cwd=CHECKOUT,
        env={name: text for name, text in os.environ.items() if not name.startswith("MAKE")},  # of `make test`
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    figures = json.loads(demo.stdout)
    assert set(figures) == FIELDS
    assert figures["early_starts"] == 0
    assert figures["shortest_gap_ratio"] >= 1
    assert figures["sites"] == 24
    assert figures["fetched"] > 500
    assert figures["used_share"] <= 1
    assert 0 < figures["lateness_p50_ms"] <= figures["lateness_p99_ms"]
    assert figures["unread_reads"] > 50
    assert figures["unread_flushes"] >= 1
    assert 0 < figures["unread_rows_written"] < figures["notified"] + figures["marked_read"]
    assert figures["unread_drift"] == 0
    assert figures["shipped"] > 50
    assert figures["emails_sent"] > 20
    assert figures["emails_failed"] >= 1
    assert figures["emails_unknown"] >= 1
    assert figures["mailers_killed"] >= 2
    assert figures["emails_received_twice"] == figures["emails_never_received"] == 0
    assert "requests came early" in demo.stderr
    assert "0 of 200 unread numbers drifted" in demo.stderr
    assert f"0 of {figures['shipped']} e-mails were received twice, 0 of" in demo.stderr
    assert not processes_of(home)
    in_time(figures["used_share"] > 0.8, "the rates were used too little")  # `make bench` holds it to more
    in_time(figures["notified"] > 300, "few were notified")
    in_time(figures["marked_read"] > 100, "few notifications were read")


@pytest.mark.alone
def test_ctrl_c_stops_the_demo_and_gives_the_terminal_back(home: Path) -> None:
    """Three seconds into a run: all has stopped within 5 s, with a summary, and the terminal is as it was."""
    terminal = Terminal([*MANAGE, "demo", "--home", str(home)])
    try:
        wait_for(lambda: terminal.shows("3 of 60 s"), 45, "the third second of the run")
        assert len(processes_of(home)) > 10
        pressed_at = time.monotonic()
        terminal.press_ctrl_c()
        wait_for(lambda: terminal.shows("") and terminal.process.poll() is not None, 10, "the end of the demo")
        wait_for(lambda: not processes_of(home), 10, "the end of all that it started")
        in_time(time.monotonic() - pressed_at < STOPS_WITHIN_S, "the demo took too long to stop")
        assert terminal.process.returncode == 128 + signal.SIGINT
        assert terminal.shows("requests came early")
        assert terminal.shows("0 of 200 unread numbers drifted")
        assert terminal.shows("e-mails were received twice")
        assert "Traceback" not in terminal.text
        assert terminal.is_as_before()
    finally:
        terminal.close()


def refusal(tmp_path: Path, *arguments: str, **variables: str) -> str:
    """Return what a command writes that must be refused."""
    with (tmp_path / "output").open("w+b") as output:
        command = Forked("-c", MANAGE_PY, *arguments, environment={**os.environ, **variables}, output=output)
        command.communicate()
        assert command.wait() == 1
        output.seek(0)
        return output.read().decode()


def test_the_demo_wipes_nothing_but_what_a_demo_made(home: Path, tmp_path: Path) -> None:
    """A folder that holds something else is refused, and left as it is."""
    home.mkdir()
    (home / "precious").write_text("data")
    said = refusal(tmp_path, "demo", "--headless", "--home", str(home))
    assert f"{home} holds something that is not the demo's" in said
    assert [entry.name for entry in home.iterdir()] == ["precious"]


def diagnosis(home: Path) -> tuple[list[str], bool]:
    """Return what `doctor` finds wrong, and whether that took less than five seconds."""
    doctor = subprocess.run(
        [*MANAGE, "doctor", "--json"],
        env={**os.environ, "WEIR_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(doctor.stdout)
    wrong = [finding["sentence"] for finding in told["findings"] if finding["level"] == "wrong"]
    assert bool(doctor.returncode) == bool(wrong)
    return wrong, told["seconds"] < 5


@pytest.mark.alone
def test_up_serves_and_sigterm_stops_everything(home: Path) -> None:
    """On empty embedded servers: /healthz answers, the admin's user is explained, and nothing stays behind.

    Servers that are killed are started again, and Weir works as before.
    """
    home.mkdir()
    log = home / "up.log"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("wb") as output:
        up = subprocess.Popen(
            [*MANAGE, "up", "--port", str(port)],
            env={**os.environ, "WEIR_HOME": str(home), "DJANGO_ALLOWED_HOSTS": "127.0.0.1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: "Weir is running." in log.read_text(), 60, f"up: {log}")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as response:
            assert json.load(response)["database"] == "ok"
        assert "Traceback" not in log.read_text()
        for pid_file in ("postgres/data/postmaster.pid", "valkey/valkey.pid"):
            os.kill(int((home / pid_file).read_text().partition("\n")[0]), signal.SIGKILL)
        wait_for(lambda: log.read_text().count(" has ended, and is started again: ") == 2, 60, f"both again: {log}")
        wait_for(lambda: diagnosis(home) == ([], True), 60, f"`doctor` that soon finds nothing wrong: {log}")
        served = [queues for words in processes_of(home) for queues in re.findall(r"--queues (\S+)", words)]
        assert {queue for queues in served for queue in queues.split(",")} == set(schedule.queues())
        assert f"http://127.0.0.1:{port}/admin/" in log.read_text()
        asked_at, until_then = time.monotonic(), len(log.read_text())
        up.send_signal(signal.SIGTERM)
        assert up.wait(10) == 0
        wait_for(lambda: not processes_of(home), 10, "the end of all that it started")
        in_time(time.monotonic() - asked_at < STOPS_WITHIN_S, "`up` took too long to stop")
        assert "Traceback" not in log.read_text()[until_then:]
    finally:
        up.kill()
        up.wait()


def test_up_says_when_the_port_is_taken(home: Path, tmp_path: Path) -> None:
    """One sentence names the port and the option, and nothing was started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [sentence] = refusal(tmp_path, "up", "--port", str(port), WEIR_HOME=str(home)).splitlines()
    assert f"Port {port} of 127.0.0.1 cannot be used" in sentence
    assert "--port" in sentence
    assert not home.exists()
