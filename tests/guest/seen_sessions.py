"""Sessions with PostgreSQL: those of the foreign project stay as they are, but while Weir's work has them."""

from types import SimpleNamespace

from celery.signals import celeryd_after_setup, task_prerun
from django.db import connection
from django.db.backends.signals import connection_created
from django.test import TransactionTestCase

from tests.guest.celery import app
from weir.workers import own_sessions, task_names

NAMES = ("statement_timeout", "idle_in_transaction_session_timeout", "jit", "lock_timeout")


def shown() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in NAMES))
        return list(cursor.fetchone())


def has_begun(task: str) -> None:
    task_prerun.send(sender=None, task=SimpleNamespace(name=task))


class Sessions(TransactionTestCase):
    """The server's own values are the project's."""

    def setUp(self) -> None:
        self.leave_signals_as_they_are()
        connection.close()
        self.usual = shown()
        connection.close()

    def leave_signals_as_they_are(self) -> None:
        signals = (connection_created, task_prerun, celeryd_after_setup)
        before = [(signal, list(signal.receivers)) for signal in signals]

        def put_back() -> None:
            for signal, receivers in before:
                signal.receivers[:] = receivers
                getattr(signal, "sender_receivers_cache", {}).clear()
            own_sessions._thread.__dict__.clear()
            connection.close()

        self.addCleanup(put_back)

    def test_web_code_has_the_projects_sessions(self) -> None:
        own_sessions.configure_own_sessions()
        assert shown() == self.usual == ["0", "0", "on", "0"]

    def test_a_worker_of_the_projects_queues_has_the_projects_sessions(self) -> None:
        own_sessions.configure_own_sessions()
        self.worker("celery")
        assert shown() == self.usual

    def test_weirs_tasks_have_limits_and_the_projects_have_none(self) -> None:
        """In one worker, and one session, whoever comes first."""
        own_sessions.configure_own_sessions()
        self.worker("celery", "weir.ticks")
        has_begun(task_names.SWEEP)
        ours = ["1min", "1min", "off", "0"]
        assert shown() == ours
        kept = connection.connection
        has_begun("guest.tasks.charge")
        assert shown() == self.usual
        has_begun(task_names.SWEEP)
        assert shown() == ours
        assert connection.connection is kept
        has_begun("guest.tasks.charge")
        connection.close()
        assert shown() == self.usual, "also where the task opens it"

    def test_beat_has_limits(self) -> None:
        own_sessions.begin()  # what Weir's scheduler has called before it reads the schedule
        assert shown()[:2] == ["1min", "1min"]

    def worker(self, *queues: str) -> None:
        """Set up a worker of these queues."""
        app.amqp.queues.select([*queues])
        self.addCleanup(app.amqp.__dict__.pop, "queues", None)
        celeryd_after_setup.send(sender="guest@here", instance=SimpleNamespace(app=app), conf=app.conf)
