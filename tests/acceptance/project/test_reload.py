"""`manage.py up` while somebody develops: in a copy of the checkout, with an app of one's own in it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from project import embedded
from project.checkout import CHECKOUT
from tests.forked import Forked
from tests.waiting import wait_for

PACKAGES = ("demo", "notifications", "project", "ratelimit", "weir", "workers")
# Longer than what a process has that is to stop at once.
TASKS = """
from pathlib import Path
import time
from celery import shared_task

NOTES = Path({notes!r})

@shared_task(name="shop.tasks.page_arrived")
def page_arrived(fetch_id):
    print("{word} begins", fetch_id)
    (NOTES / "{word}-began").touch()
    time.sleep({seconds})
    (NOTES / "{word}-ended").touch()
"""
ASK = "from weir.workers.fetches.enqueue import request_fetch as r; r({url!r}, on_done='shop.tasks.page_arrived')"
# `manage.py`, in the copy: nothing of the checkout's is on its path.
MANAGE = f"""
import os, runpy, sys
os.chdir(sys.argv.pop(1))
sys.path[:] = [os.getcwd(), *(path for path in sys.path if path not in {{"", {str(CHECKOUT)!r}}})]
sys.argv[0] = "manage.py"
runpy.run_path("manage.py", run_name="__main__")
"""
SHIP = """
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
shipping.ship(Order.objects.create(number="A-17", customer_email="kim@example.com").pk)
"""


class Page(BaseHTTPRequestHandler):
    """Answers everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    """The URL of a page on this host."""
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Checkout:
    """A copy of the checkout with the app `shop`, and an `up` that runs in it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.home, self.log = folder / "weir", folder / "home", folder / "up.log"
        self.notes = folder / "notes"
        self.notes.mkdir()
        for name in PACKAGES:  # with their byte code, which all processes would make at the same time
            shutil.copytree(CHECKOUT / name, self.path / name, symlinks=True)
        for name in ("manage.py", "Procfile", "Procfile.split"):
            shutil.copy(CHECKOUT / name, self.path)
        (self.path / "shop").mkdir()
        (self.path / "shop" / "__init__.py").touch()
        settings = self.path / "project" / "settings.py"
        settings.write_text(settings.read_text().replace('    "demo",\n', '    "demo",\n    "shop",\n'))
        unset = dict.fromkeys(("EMAIL_HOST", "EMAIL_BACKEND", "WEIR_LOG_FORMAT", "WEIR_FETCH_ALLOW_NETS"), "")
        self.environment = {**os.environ, **unset, "WEIR_HOME": str(self.home), "WEIR_DEFAULT_RATE": "20/s"}
        del self.environment["EMAIL_HOST"], self.environment["WEIR_FETCH_ALLOW_NETS"]

    def write_tasks(self, word: str, seconds: float) -> None:
        """Save the app's tasks."""
        text = TASKS.format(notes=str(self.notes), word=word, seconds=seconds)
        (self.path / "shop" / "tasks.py").write_text(text)

    def manage(self, *arguments: str) -> tuple[int, str]:
        """Run a command, as in another terminal; return how it ended, and what it wrote."""
        environment = {**self.environment, "PYTHONPATH": str(self.path)}
        with (self.notes / "output").open("w+b") as output:
            command = Forked("-c", MANAGE, str(self.path), *arguments, environment=environment, output=output)
            command.communicate()
            output.seek(0)
            return command.wait(), output.read().decode()

    def up(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start `up`, on a port that is free."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with self.log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(port), *options],
                cwd=self.path,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self, words: str, times: int = 1) -> bool:
        """Tell whether `up`, or one of its processes, has said that so often."""
        return self.log.read_text(errors="replace").count(words) >= times

    def has(self, note: str) -> bool:
        """Tell whether a task has left this note."""
        return (self.notes / note).exists()


@pytest.fixture
def checkout() -> Iterator[Checkout]:
    """A copy of the checkout, in a folder that PostgreSQL's user can reach also when we are root."""
    folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
    folder.chmod(0o711)
    made = Checkout(folder)
    try:
        yield made
    finally:
        embedded.discard(made.home)
        shutil.rmtree(folder, ignore_errors=True)


def test_new_code_is_what_the_next_fetch_calls(checkout: Checkout, page: str) -> None:
    """And what went on with the old code ends: a reload loses no call, though its task takes longer than any stop.

    On the way: commands in another terminal may fetch what `up` allows, e-mails are caught, a second `up` is refused,
    and code that cannot be parsed, or loaded, changes nothing.
    """
    checkout.write_tasks("old", seconds=6)
    up = checkout.up("--allow-loopback")
    try:
        wait_for(lambda: checkout.said("Weir is running."), 90, f"up: {checkout.log}")
        status, said = checkout.manage("up", "--port", "1")
        assert (status, said.count("\n")) == (1, 1)
        assert f"Weir already runs from this folder (pid {up.pid}, port" in said
        status, said = checkout.manage("fetch", page)
        assert status == 0, said
        assert checkout.manage("shell", "-c", ASK.format(url=page))[0] == 0
        wait_for(lambda: checkout.has("old-began"), 30, "the call of on_done")
        checkout.write_tasks("new", seconds=0)
        wait_for(lambda: checkout.said("shop/tasks.py changed: all processes end and start again."), 60, "the line")
        wait_for(lambda: checkout.said("Weir runs again"), 60, f"the reload: {checkout.log}")
        wait_for(lambda: checkout.has("old-ended"), 30, "the end of what went on with the old code")
        assert checkout.manage("shell", "-c", ASK.format(url=page))[0] == 0
        wait_for(lambda: checkout.has("new-ended"), 30, "the call of the new code")
        assert checkout.said("[info] new begins", times=1)
        (checkout.path / "shop" / "tasks.py").write_text("from shop import prices\n")
        wait_for(lambda: checkout.said("ImportError: cannot import name 'prices'"), 60, "the mistake")
        assert checkout.said("The processes go on with the code that they have.")
        assert not checkout.said("Traceback")  # only its last lines
        assert not checkout.said("ImportError", times=2)
        (checkout.path / "shop" / "views.py").write_text("def broken(:\n")
        wait_for(lambda: checkout.said("SyntaxError"), 10, "the mistake")
        assert checkout.manage("shell", "-c", SHIP)[0] == 0
        wait_for(lambda: [*(checkout.home / "mail").glob("*.eml")], 30, "the e-mail")
        wait_for(lambda: checkout.said("to kim@example.com: "), 10, "the line about the e-mail")
        assert checkout.said("WEIR_FETCH_USER_AGENT names none")
        assert not checkout.said("user_agent_without_contact")  # by each fetcher, that is, at each reload
        assert not re.search(r"\[info\].*GET /healthz", checkout.log.read_text(errors="replace"))  # one that succeeds
        up.send_signal(signal.SIGTERM)
        assert up.wait(10) == 0
    finally:
        up.kill()
        up.wait()
