"""E-mails a second from the queue to a local sink: `send_due` against three peers.

They are django-mailer, django-post_office and the published pattern. First one process a side, then four at the same
time; django-post_office's four are its own option, started by one process. There are two more sides: the published
pattern over one connection instead of one for each e-mail, which is faster than the published code; and a loop of
smtplib without a database, which sends prepared bytes and shows what the sink can accept. Then one process a side once
more, to a sink that has each e-mail on its disk before it accepts it.
"""

import smtplib
from collections.abc import Callable
from pathlib import Path

from django.test.utils import override_settings

from benchmarks.figures import Figure
from benchmarks.once import crew, queues, sink
from benchmarks.once.crew import Crew
from benchmarks.once.sink import Sink
from benchmarks.rounds import Side, middle, rate, ratio, take_turns
from weir.workers.mail.models import Rendering

ROUNDS = 5
MAILS = 600  # a round and side
ROUNDS_AT_ONCE = 3
MAILS_AT_ONCE = 4_000  # enough to make connecting, once a round, count for little
PROCESSES = queues.PROCESSES
OURS, DJANGO_MAILER, POST_OFFICE, PUBLISHED, PUBLISHED_OVER_ONE_CONNECTION, BARE = range(6)


def compare(folder: Path) -> list[Figure]:
    """Return the rates and the ratios; the sink that writes does so below `folder`."""
    with (
        sink.running() as server,
        override_settings(EMAIL_HOST=sink.HOST, EMAIL_PORT=server.port),
        queues.peers(is_alone=True),
    ):
        alone = _alone(server)
        with (
            crew.running(PROCESSES, sink.HOST, server.port) as four,
            crew.running(1, sink.HOST, server.port) as forking,
        ):
            together = _together(server, four, forking)
    with (
        sink.running(folder) as writing,
        override_settings(EMAIL_HOST=sink.HOST, EMAIL_PORT=writing.port),
        queues.peers(is_alone=True),
    ):
        onto_disk = _alone(writing)
    return [*_figures_alone("once", alone), *_figures_together(together), *_figures_alone("once_onto_disk", onto_disk)]


RATES = {"send_due": OURS, "django_mailer": DJANGO_MAILER, "post_office": POST_OFFICE, "published": PUBLISHED}
MORE_RATES = {"published_over_one_connection": PUBLISHED_OVER_ONE_CONNECTION, "bare_smtplib": BARE}
PEERS = {name: side for name, side in RATES.items() if side != OURS}


def _figures_alone(prefix: str, alone: list[tuple[float, ...]]) -> list[Figure]:
    peers = PEERS | {"published_over_one_connection": PUBLISHED_OVER_ONE_CONNECTION}
    return [
        *(
            Figure(name=f"{prefix}_{name}", value=middle(alone, side), unit="e-mails/s")
            for name, side in (RATES | MORE_RATES).items()
        ),
        *(Figure(name=f"{prefix}_vs_{name}", value=ratio(alone, OURS, side), unit="x") for name, side in peers.items()),
    ]


def _figures_together(together: list[tuple[float, ...]]) -> list[Figure]:
    return [
        *(
            Figure(name=f"once_{name}_by_{PROCESSES}", value=middle(together, side), unit="e-mails/s")
            for name, side in RATES.items()
        ),
        *(
            Figure(name=f"once_vs_{name}_by_{PROCESSES}", value=ratio(together, OURS, side), unit="x")
            for name, side in PEERS.items()
        ),
    ]


def _alone(server: Sink) -> list[tuple[float, ...]]:
    """Return the rates of one process a side."""

    def side(name: str) -> Side:
        return lambda: _rate(server, MAILS, lambda: queues.FILLERS[name](MAILS), queues.SENDERS[name])

    queues.fill(1)
    content = bytes(Rendering.objects.get().content)

    def bare() -> None:
        with smtplib.SMTP(sink.HOST, server.port) as client:
            for number in range(MAILS):
                client.sendmail("shop@localhost", queues.ADDRESS % number, content)

    alone = ("send_due", "django_mailer", "post_office", "published", "published_over_one_connection")
    sides = [*(side(name) for name in alone), lambda: _rate(server, MAILS, lambda: None, bare)]
    take_turns(1, *sides)  # imports and first connections are not measured
    return take_turns(ROUNDS, *sides)


def _together(server: Sink, four: Crew, forking: Crew) -> list[tuple[float, ...]]:
    """Return the rates of several processes a side, which share one queue; `forking` is one, which starts others."""

    def side(name: str, processes: Crew = four) -> Side:
        return lambda: _rate(
            server, MAILS_AT_ONCE, lambda: queues.FILLERS[name](MAILS_AT_ONCE), lambda: processes.send(name)
        )

    sides = [
        side("send_due"),
        side("django_mailer"),
        side(f"post_office_by_{PROCESSES}", forking),
        side("published"),
    ]
    take_turns(1, *sides)
    return take_turns(ROUNDS_AT_ONCE, *sides)


def _rate(server: Sink, mails: int, fill: Callable[[], object], send: Callable[[], object]) -> float:
    """Return e-mails a second; AssertionError if the sink has not counted all of them."""
    fill()
    before = server.accepted()
    found = rate(mails, send)
    if (sent := server.accepted() - before) != mails:
        raise AssertionError(f"{mails} e-mails were to be sent, but the sink has {sent}")
    return found
