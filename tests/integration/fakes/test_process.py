"""The sites' process: its start, its end, its addresses, and what it does not import."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from demo.fakes.hosts import host
from demo.fakes.site_server import listen
from demo.fakes.sites import running
from project.checkout import CHECKOUT
from tests.acceptance import networks
from tests.forked import Forked
from tests.integration.fakes.conftest import TIMEOUT_S, ask, connect, head_of, logged, logged_now, wait_until
from tests.waiting import in_time


def test_every_request_is_in_the_log_when_the_process_has_ended(tmp_path: Path) -> None:
    """On SIGTERM what was noted is written; the ready file says that the kernel gave every time."""
    with running(2, tmp_path, body_size=10) as ended, connect(ended) as unfinished:
        for _ in range(100):
            assert len(ask(ended, "/ok/counted", host_index=1)[1]) == 10
        unfinished.sendall(head_of("/drip/x"))
        unfinished.recv(1)
        began = time.monotonic()
    in_time(time.monotonic() - began < 2, "the end of the sites")
    assert len(logged_now(ended, "/ok/counted")) == 100
    state = json.loads((tmp_path / "sites.json").read_text())
    assert state == {
        "port": ended.port,
        "hosts": ["127.1.0.1", "127.1.0.2"],
        "pid": ended.pid,
        "requests": 101,
        "connections": 101,
        "reads_without_kernel_time": 0,
    }


def test_the_sites_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """A killed parent cannot end them, so the kernel does."""
    script = (
        "import os, pathlib, signal, sys; from demo.fakes.sites import running\n"
        "with running(1, pathlib.Path(sys.argv[1])) as sites:\n"
        "    print(sites.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
    try:
        wait_until(lambda: has_ended(orphan))
    finally:
        with suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or is a zombie."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_sites_that_cannot_start_say_so(tmp_path: Path) -> None:
    """The process that starts sites gets an error at once if they do not start."""
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="did not start"), running(0, tmp_path):
        pass
    assert time.monotonic() - began < TIMEOUT_S


def test_sites_that_ended_early_are_an_error(tmp_path: Path) -> None:
    """Sites that were killed meanwhile are an error on leaving, not a log with few requests."""
    with ExitStack() as leaving:
        killed = leaving.enter_context(running(1, tmp_path))
        os.kill(killed.pid, signal.SIGKILL)
        wait_until(lambda: has_ended(killed.pid))
        with pytest.raises(RuntimeError, match="ended with -9"):
            leaving.close()


def test_another_port_is_tried_where_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is free on the first address but not on the second is given up for another."""
    create_server = socket.create_server
    rivals: list[socket.socket] = []

    def create_after_a_rival(address: tuple[str, int], *, backlog: int) -> socket.socket:
        if address[1] and not rivals:
            rivals.append(create_server(address))
        return create_server(address, backlog=backlog)

    monkeypatch.setattr(socket, "create_server", create_after_a_rival)
    listeners = listen([host(0), host(1)], 0)
    names = [listener.getsockname() for listener in listeners]
    rival_port = rivals[0].getsockname()[1]
    for opened in [*listeners, *rivals]:
        opened.close()
    assert [name[0] for name in names] == ["127.1.0.1", "127.1.0.2"]
    assert names[0][1] == names[1][1] != rival_port


def test_a_port_asked_for_and_taken_is_an_error() -> None:
    """No other port is taken than the one that was asked for."""
    with socket.create_server((host(0), 0)) as rival, pytest.raises(OSError, match="in use"):
        listen([host(0)], rival.getsockname()[1])


@pytest.mark.parametrize(
    ("index", "address"),
    [(0, "127.1.0.1"), (249, "127.1.0.250"), (250, "127.1.1.1"), (63_999, "127.1.255.250")],
)
def test_addresses_follow_from_numbers(index: int, address: str) -> None:
    """The same number is the same address, everywhere and always."""
    assert host(index) == address


def test_a_network_of_its_own_changes_the_first_two_numbers() -> None:
    """Elsewhere than on loopback the same numbers are the same addresses of that network."""
    assert host(250, "198.18") == "198.18.1.1"


def test_sites_are_in_the_network_that_a_test_has_entered(tmp_path: Path) -> None:
    """Most sites are forks of a process in the first network; these are not."""
    Forked("-c", "", environment=os.environ).communicate()  # so that the process that is forked runs already

    def enter(made: networks.Networks) -> None:
        with made.sites.entered(), running(1, tmp_path, body_size=10) as there:
            assert made.sites.holds(there.pid)
            assert len(ask(there, "/ok/there")[1]) == 10
            with pytest.raises(AssertionError, match="not be in the network"):
                Forked("-c", "", environment=os.environ)

    try:
        with networks.separate(0) as made, ThreadPoolExecutor(1) as pool:
            pool.submit(enter, made).result()  # another thread than the first one has entered
    except networks.Unavailable as error:
        pytest.skip(str(error))


def test_sites_listen_in_the_network_that_they_are_given(tmp_path: Path) -> None:
    """The sites listen in the network that is named."""
    with running(2, tmp_path, network="127.77") as elsewhere:
        assert elsewhere.hosts == ("127.77.0.1", "127.77.0.2")
        assert ask(elsewhere, "/ok/elsewhere", host_index=1)[0].status == 200


def test_the_process_can_be_started_inside_of_something(tmp_path: Path) -> None:
    """`inside` is a command that runs the sites, as `nsenter` does, and keeps their process."""
    with running(1, tmp_path, inside=("env", "GREETING=hello")) as started:
        assert psutil.Process(started.pid).environ()["GREETING"] == "hello"


@pytest.mark.parametrize("index", [-1, 64_000])
def test_there_are_only_so_many_addresses(index: int) -> None:
    """A number without an address is an error."""
    with pytest.raises(ValueError, match="Sites are numbered"):
        host(index)


def test_the_sites_know_no_django(tmp_path: Path) -> None:
    """The process starts quickly and depends on nothing it judges: of our packages it imports `demo` alone."""
    script = (
        "import sys, uvloop; uvloop.run = lambda serving: serving.close()\n"
        "import runpy; runpy.run_module('demo.fakes.site_server', run_name='__main__')\n"
        "print(sorted({'django', 'celery', 'weir', 'project', 'demo'} & set(sys.modules)))"
    )
    files = [f"--{name}={tmp_path / name}" for name in ("log", "answers", "ready")]
    found = subprocess.run(
        [sys.executable, "-c", script, *files, "--hosts=1"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
        text=True,
    )
    assert found.stdout == "['demo']\n"


def test_the_sites_can_be_started_as_a_module() -> None:
    """`python -m demo.fakes.site_server` is how a person or a supervisor starts them."""
    asked = subprocess.run(
        [sys.executable, "-m", "demo.fakes.site_server", "--help"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
        text=True,
    )
    assert "--ready" in asked.stdout


def test_connections_beyond_its_files_wait(tmp_path: Path) -> None:
    """They are answered when others are closed, and the sites live on."""
    with running(1, tmp_path) as sites, ExitStack() as opened:
        process = psutil.Process(sites.pid)
        most = process.num_fds() + 3
        process.rlimit(psutil.RLIMIT_NOFILE, (most, most))
        first = [opened.enter_context(connect(sites)) for _ in range(3)]
        beyond = opened.enter_context(connect(sites))
        for connection in (*first, beyond):
            connection.sendall(head_of("/ok/full"))
        assert len(logged(sites, "/ok/full", 3)) == 3
        for connection in first:
            connection.close()
        assert beyond.recv(65_536).startswith(b"HTTP/1.1 200 ")
