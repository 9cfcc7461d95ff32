"""E-mails a second from the queue to a local sink: `send_due` against django-mailer and the published pattern.

First one process a side, then four at once. There are two more sides: the published pattern over one connection instead
of one an e-mail, which is faster than the published code; and a loop of smtplib without a database, which sends
prepared bytes and shows what the sink can accept.
"""

import smtplib
from collections.abc import Callable

from django.test.utils import override_settings

from benchmarks.figures import Figure
from benchmarks.once import crew, queues, sink
from benchmarks.once.crew import Crew
from benchmarks.once.sink import Sink
from benchmarks.rounds import Side, middle, rate, ratio, take_turns
from workers.mail.models import Rendering

ROUNDS = 5
MAILS = 600  # a round and side
ROUNDS_AT_ONCE = 3
MAILS_AT_ONCE = 400
PROCESSES = 4
OURS, DJANGO_MAILER, PUBLISHED, PUBLISHED_OVER_ONE_CONNECTION, BARE = range(5)


def compare() -> list[Figure]:
    """Return the rates and the ratios."""
    with (
        sink.running() as server,
        override_settings(EMAIL_HOST=sink.HOST, EMAIL_PORT=server.port),
        queues.django_mailer(is_alone=True),
    ):
        alone = _alone(server)
        with crew.running(PROCESSES, sink.HOST, server.port) as four:
            together = _together(server, four)
    rates = {"send_due": OURS, "django_mailer": DJANGO_MAILER, "published": PUBLISHED}
    more_rates = {"published_over_one_connection": PUBLISHED_OVER_ONE_CONNECTION, "bare_smtplib": BARE}
    return [
        *(
            Figure(name=f"once_{name}", value=middle(alone, side), unit="e-mails/s")
            for name, side in (rates | more_rates).items()
        ),
        Figure(name="once_vs_django_mailer", value=ratio(alone, OURS, DJANGO_MAILER), unit="x"),
        Figure(name="once_vs_published", value=ratio(alone, OURS, PUBLISHED), unit="x"),
        Figure(
            name="once_vs_published_over_one_connection",
            value=ratio(alone, OURS, PUBLISHED_OVER_ONE_CONNECTION),
            unit="x",
        ),
        *(
            Figure(name=f"once_{name}_by_{PROCESSES}", value=middle(together, side), unit="e-mails/s")
            for name, side in rates.items()
        ),
        Figure(name=f"once_vs_django_mailer_by_{PROCESSES}", value=ratio(together, OURS, DJANGO_MAILER), unit="x"),
        Figure(name=f"once_vs_published_by_{PROCESSES}", value=ratio(together, OURS, PUBLISHED), unit="x"),
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

    sides = [*(side(name) for name in queues.SENDERS), lambda: _rate(server, MAILS, lambda: None, bare)]
    take_turns(1, *sides)  # imports and first connections are not measured
    return take_turns(ROUNDS, *sides)


def _together(server: Sink, four: Crew) -> list[tuple[float, ...]]:
    """Return the rates of several processes a side, which share one queue."""

    def side(name: str) -> Side:
        return lambda: _rate(
            server, MAILS_AT_ONCE, lambda: queues.FILLERS[name](MAILS_AT_ONCE), lambda: four.send(name)
        )

    sides = [side(name) for name in ("send_due", "django_mailer", "published")]
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
