"""Two beats of the Procfile, of which the one that ticks is cut off from PostgreSQL: the other takes over, alone."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

import pytest
from django.db import connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from project import embedded
from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from weir.workers import task_names

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "test-beat"
TAKES_OVER_WITHIN_S = 10.0


@dataclass
class Cable:
    """What lies between a beat and PostgreSQL. Cut, it says nothing to either side, and no connection ends."""

    port: int = 0
    whole: threading.Event = field(default_factory=threading.Event)
    ends: list[socket.socket] = field(default_factory=list)

    def mend(self) -> None:
        """End the connections that were cut, and carry new ones."""
        for end in self.ends:
            with suppress(OSError):  # its connection may have ended by itself
                end.shutdown(socket.SHUT_RDWR)
        self.whole.set()


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        cable: Cable = self.server.cable  # type: ignore[attr-defined]
        cable.whole.wait()
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{connection.settings_dict['HOST']}/.s.PGSQL.5432")
            cable.ends += [self.request, server]
            back = threading.Thread(target=_carry, args=(cable, server, self.request))
            back.start()
            _carry(cable, self.request, server)
            back.join()
            cable.ends = [end for end in cable.ends if end not in (self.request, server)]


def _carry(cable: Cable, source: socket.socket, target: socket.socket) -> None:
    try:
        while some := source.recv(65_536):
            cable.whole.wait()
            target.sendall(some)
        cable.whole.wait()
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it was ended by `mend`


@pytest.fixture
def cable() -> Iterator[Cable]:
    """Lay a cable, which is whole."""
    made = Cable()
    made.whole.set()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection) as server:
        server.daemon_threads = True
        server.cable = made  # type: ignore[attr-defined]
        made.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()
        made.mend()


def senders(procfile: Procfile) -> list[int]:
    """Return the process ids of those that have sent the task, in the order of its messages."""
    messages = [json.loads(message) for message in reversed(procfile.broker.lrange(QUEUE, 0, -1))]
    return [int(message["headers"]["origin"].partition("@")[0].removeprefix("gen")) for message in messages]


def is_connected(application: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE application_name = %s", [application])
        return bool(cursor.rowcount)


def test_a_beat_that_is_cut_off_from_postgresql_gives_way(
    procfile: Procfile, cable: Cable, eventually: Eventually
) -> None:
    """A standby ticks within ten seconds; the one that is cut off sends nothing more, also when it is back."""
    second = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
    heartbeat = {"task": task_names.HEARTBEAT, "args": '["default"]'}
    PeriodicTask.objects.create(name="test", interval=second, queue=QUEUE, **heartbeat)
    name, directly = connection.settings_dict["NAME"], procfile.environment["DATABASE_URL"]
    url = f"postgresql://{embedded.DATABASE_USER}@127.0.0.1:{cable.port}/{name}?sslmode=disable&gssencmode=disable"
    cut_off = procfile.start("beat", log="cut off", DATABASE_URL=url).pid
    eventually(lambda: senders(procfile), "a message")
    sign = "&" if "?" in directly else "?"
    standby = procfile.start("beat", log="standby", DATABASE_URL=f"{directly}{sign}application_name=standby").pid
    eventually(lambda: is_connected("standby"), "the standby")

    cable.whole.clear()
    cut_at = time.monotonic()
    eventually(lambda: standby in senders(procfile), "the standby's message", seconds=TAKES_OVER_WITHIN_S)
    print(f"\nthe standby ticks {time.monotonic() - cut_at:.1f} s later")
    cable.mend()
    eventually(lambda: "beat_lost_lease" in procfile.said("cut off"), "the other one to find out")
    before = senders(procfile).count(standby)
    eventually(lambda: senders(procfile).count(standby) > before + 1, "the standby to go on")
    assert [pid for pid, _ in groupby(senders(procfile))] == [cut_off, standby]
