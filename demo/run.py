"""One run of the demo: from an empty folder, through starting and watching, to everything stopped."""

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from io import StringIO
from typing import Protocol

from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now

from demo import bell, inboxes, shipments
from demo import home as demo_home
from demo.fakes import mail_server, sites
from demo.killer import Killer
from demo.observer import Observer, View
from demo.plan import Plan
from demo.users import USER_IDS
from demo.workload import Workload
from project import embedded
from project.celery import app
from project.logins import links
from project.processes import interrupts, procfile
from weir.notifications import reconcile
from weir.workers.models import BeatLease

BESIDE_FETCHERS = ("web", "worker", "ticks", "maintenance", "mailer", "beat")
LOOK_EVERY_S = 0.5
FIRST_REQUEST_WITHIN_S = 30.0


class Screen(Protocol):
    """Where a run shows what happens."""

    def note(self, text: str) -> None:
        """Say what is going on."""

    def invite(self, link: str, bell: str | None) -> None:
        """Show the link to the operators' pages, and to the page with the bell, for as long as they are there."""

    def show(self, view: View) -> None:
        """Show the state."""


class Run:
    """Starts everything, watches, and stops everything, however it ends; `observer` is there once URLs are queued."""

    def __init__(self, plan: Plan, screen: Screen) -> None:
        self.plan = plan
        self.observer: Observer | None = None
        self._screen = screen
        self._running: list[procfile.Processes] = []

    def perform(self) -> None:
        """Return when the time is over and everything has stopped.

        Raises what the parts raise: NotADemoFolder, EmbeddedError, ProcessesEnded, NotReady, and RuntimeError for
        sites, mail server, users and warehouse.
        """
        demo_home.wipe(self.plan.home)
        with ExitStack() as stack:
            try:
                self._start_and_watch(stack)
            finally:
                interrupts.ignore()
                self._show_the_end()
                self._screen.note("Stopping…")
                for running in self._running:  # all are asked to end before the first is waited for
                    running.end()

    def _start_and_watch(self, stack: ExitStack) -> None:
        plan, note = self.plan, self._screen.note
        note(f"Starting {plan.sites} sites, a mail server, PostgreSQL and Valkey…")
        web_sites, server = self._start_servers(stack)
        port = str(_free_port())
        env = {**os.environ, "PORT": port, "EMAIL_PORT": str(server.port)}
        env.setdefault("DJANGO_SECRET_KEY", secrets.token_urlsafe(50))
        note(f"Starting {plan.fetchers} fetchers, and making the database's tables…")
        fetchers = self._run(stack, env, {"fetcher": plan.fetchers})  # they need tables only when there is work
        _make_tables()
        self._check()
        note(f"Starting workers, mailer, beat, web, {len(USER_IDS)} users and a warehouse…")
        running = self._run(stack, env, dict.fromkeys(BESIDE_FETCHERS, 1))
        with interrupts.hidden_from_children():
            users = stack.enter_context(inboxes.running(plan.home, plan.log))
            shipped = stack.enter_context(shipments.running(plan.log, env, server, Killer(running)))
        workers = (*fetchers.workers, *running.workers)
        self._wait_until(running, lambda: procfile.workers_answer(app, workers), "not all workers answer")
        self._wait_until(
            running, lambda: procfile.web_answers("127.0.0.1", int(port)), "the web process does not answer"
        )
        self._wait_until(running, _beat_ticks, "beat does not tick")
        self._wait_until(running, users.have_begun, "no user has done anything")
        self._wait_until(running, shipped.have_begun, "no order has been shipped")
        workload = Workload(web_sites)
        self.observer = Observer(workload.sites, web_sites.log, users, shipped)
        workload.set_rates()
        note(f"{workload.enqueue(plan.duration_s):,} URLs wait to be fetched.")
        base = f"http://127.0.0.1:{port}"
        self._screen.invite(links.make(base), bell.address(base))
        self._watch(self.observer, users, shipped)

    def _start_servers(self, stack: ExitStack) -> tuple[sites.Sites, mail_server.MailServer]:
        try:
            with interrupts.hidden_from_children():
                web_sites = stack.enter_context(sites.running(self.plan.sites, self.plan.home))
                server = stack.enter_context(mail_server.running(self.plan.home))
        except RuntimeError as error:
            raise procfile.NotReady(str(error)) from error
        stack.enter_context(embedded.servers(self.plan.home, durable=False))
        stack.callback(connection.close)
        return web_sites, server

    def _run(self, stack: ExitStack, env: Mapping[str, str], counts: Mapping[str, int]) -> procfile.Processes:
        running = stack.enter_context(procfile.running(env, counts=counts, log=self.plan.log))
        self._running.append(running)
        return running

    def _wait_until(self, running: procfile.Processes, ready: Callable[[], bool], what: str) -> None:
        """Wait, and raise ProcessesEnded as soon as any process ends, including a fetcher."""

        def all_run_and_it_is_ready() -> bool:
            self._check()
            return ready()

        running.wait_until(all_run_and_it_is_ready, what)

    def _watch(self, observer: Observer, users: inboxes.Inboxes, shipped: shipments.Shipments) -> None:
        give_up_at = time.monotonic() + FIRST_REQUEST_WITHIN_S
        while (view := observer.look()).elapsed_s is None:
            self._check()
            if time.monotonic() > give_up_at:
                raise procfile.NotReady(f"After {FIRST_REQUEST_WITHIN_S:g} s no site has been asked.")
            time.sleep(procfile.POLL_S)
        while view.elapsed_s is not None and view.elapsed_s < self.plan.duration_s:
            self._check()
            users.program.check()
            shipped.program.check()
            shipped.killer.kill_if_due()
            self._screen.show(view)
            time.sleep(min(LOOK_EVERY_S, self.plan.duration_s - view.elapsed_s))
            view = observer.look()
        self._screen.show(view)

    def _check(self) -> None:
        for running in self._running:
            running.check()

    def _show_the_end(self) -> None:
        """Stop users and warehouse, and show the final unread numbers and e-mails, even after Ctrl-C."""
        if self.observer is not None:
            connection.close()  # a query may have been cut off
            view = self.observer.look_at_the_end()
            if view.elapsed_s is not None:
                self._screen.show(view)


def _make_tables() -> None:
    call_command("migrate", interactive=False, verbosity=0)
    call_command("sync_schedule", stdout=StringIO())
    links.operator()  # makes the first user, who is one of those notified: see USER_IDS
    reconcile.run_pass()  # before the first pass unread numbers come from the rows, which would prove nothing


def _beat_ticks() -> bool:
    """Return whether a beat process holds the lease without which no beat ticks."""
    return BeatLease.objects.filter(lease_until__gt=Now()).exists()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
