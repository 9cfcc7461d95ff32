"""A cable between Weir and PostgreSQL is pulled: neither side says a word, and both notice within ten seconds."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from project import embedded
from project.checkout import CHECKOUT
from project.embedded.postgres import postgres_daemon, postgres_folder
from tests.acceptance import networks
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run PostgreSQL in a network of its own")

NOTICED_WITHIN_S = 12.0  # both sides give up after 8 s; the kernel's own timers are coarse

CLIENT = """
import time
import django; django.setup()
from django.db import connection
connection.ensure_connection()
print("connected", flush=True)
input()
began_at = time.monotonic()
try:
    connection.cursor().execute("SELECT 1")
except django.db.Error:
    print(time.monotonic() - began_at, flush=True)
"""


@pytest.fixture
def cables() -> Iterator[networks.Networks]:
    """Return the network of a server and that of a client."""
    try:
        with networks.separate(1) as made:
            yield made
    except networks.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def server(cables: networks.Networks) -> Iterator[Callable[[], int]]:
    """Run a PostgreSQL that listens in the server's network; return what counts its sessions from there."""
    folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
    folder.chmod(0o711)
    home = folder / "home"
    with embedded.servers(home, valkey=False, durable=False) as servers:
        sockets = servers.postgres_socket_dir
    daemon = postgres_daemon(home.resolve(), durable=False)
    (postgres_folder(home) / "data" / "pg_hba.conf").write_text("local all all trust\nhost all all all trust\n")
    user = f"--reuid={daemon.account.uid}", f"--regid={daemon.account.gid}", "--clear-groups"
    command = [*cables.sites.enter, "setpriv", *user, *daemon.command, "-c", "listen_addresses=*"]
    process = subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL)
    try:
        wait_for(daemon.answers, 30, "PostgreSQL")
        with psycopg.connect(host=str(sockets), user="postgres", dbname="weir", autocommit=True) as local:
            yield lambda: int(
                local.execute("SELECT count(*) FROM pg_stat_activity WHERE client_addr IS NOT NULL").fetchall()[0][0]
            )
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        embedded.discard(home)
        shutil.rmtree(folder)


def test_both_sides_notice_a_cable_that_was_pulled(cables: networks.Networks, server: Callable[[], int]) -> None:
    """The client's statement fails instead of waiting, and the server frees what the session held."""
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql://postgres@{networks.CABLES}.0.1/weir",
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DJANGO_SECRET_KEY": "a key of the tests",
    }
    clients = [
        subprocess.Popen(
            [*cables.clients[0].enter, sys.executable, "-c", CLIENT],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    asks, idles = clients
    try:
        assert [client.stdout.readline() for client in clients if client.stdout] == ["connected\n"] * 2
        assert server() == 2
        cables.sites.set_up("link set client0 down")
        pulled_at = time.monotonic()
        assert asks.stdin
        asks.stdin.write("\n")
        asks.stdin.flush()
        wait_for(lambda: server() == 0, NOTICED_WITHIN_S, "the server to end the sessions")
        print(f"\nthe server noticed after {time.monotonic() - pulled_at:.1f} s")
        said, _ = asks.communicate(timeout=NOTICED_WITHIN_S)
        print(f"the client noticed after {float(said):.1f} s")
        assert float(said) < NOTICED_WITHIN_S
    finally:
        for client in (asks, idles):
            client.kill()
            client.wait()
