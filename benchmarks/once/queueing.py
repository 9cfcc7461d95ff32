"""E-mails that are queued a second by one process, with text and HTML of templates: `outbox.send_once` against peers.

Each call reads its order, renders the e-mail, stores it, and commits. Weir renders the bytes that are transmitted, and
stores them; django-mailer stores a pickled message with texts that the application has rendered; django-post_office
renders its own templates, which have the same text, and stores the texts.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.template.loader import get_template, render_to_string

from benchmarks.figures import Figure
from benchmarks.once import queues
from benchmarks.rounds import Side, middle, rate, ratio, take_turns
from weir.workers.mail import outbox
from weir.workers.mail.models import Email
from weir.workers.orders.models import SHIPPED, Order

ROUNDS = 5
CALLS = 400  # a round and side
OURS, DJANGO_MAILER, POST_OFFICE = range(3)


def compare() -> list[Figure]:
    """Return the rates and the ratios."""
    with queues.peers(is_alone=True):
        sides = [_side(*side) for side in ((_ours, _our_rows), _django_mailer(), _post_office())]
        take_turns(1, *sides)
        rounds = take_turns(ROUNDS, *sides)
    return [
        Figure(name="queue_send_once", value=middle(rounds, OURS), unit="e-mails/s"),
        Figure(name="queue_django_mailer", value=middle(rounds, DJANGO_MAILER), unit="e-mails/s"),
        Figure(name="queue_post_office", value=middle(rounds, POST_OFFICE), unit="e-mails/s"),
        Figure(name="queue_vs_django_mailer", value=ratio(rounds, OURS, DJANGO_MAILER), unit="x"),
        Figure(name="queue_vs_post_office", value=ratio(rounds, OURS, POST_OFFICE), unit="x"),
    ]


def _side(queue: Callable[[int, str], object], rows: Callable[[], int]) -> Side:
    """Return a side that queues one e-mail for each of the first orders; AssertionError if they are not all stored."""

    def queue_all() -> None:
        for order_id in range(1, CALLS + 1):
            queue(order_id, queues.ADDRESS % order_id)

    def once() -> float:
        queues.fill_orders(CALLS)
        before = rows()
        found = rate(CALLS, queue_all)
        if rows() - before != CALLS:
            raise AssertionError(f"{CALLS} e-mails were to be queued, but {rows() - before} are")
        return found

    return once


def _ours(order_id: int, address: str) -> None:
    outbox.send_once(SHIPPED, str(order_id), to=address, context={"order_id": order_id})


def _our_rows() -> int:
    stored: int = Email.objects.count()
    return stored


def _django_mailer() -> tuple[Callable[[int, str], object], Callable[[], int]]:
    mailer = import_module("mailer")

    def queue(order_id: int, address: str) -> None:
        values = {"order": Order.objects.get(pk=order_id)}
        mailer.send_html_mail(
            render_to_string("weir/orders/shipped_subject.txt", values).strip(),
            render_to_string("weir/orders/shipped.txt", values),
            render_to_string("weir/orders/shipped.html", values),
            settings.DEFAULT_FROM_EMAIL,
            [address],
        )

    return queue, lambda: _count("mailer_message")


def _post_office() -> tuple[Callable[[int, str], object], Callable[[], int]]:
    mail, models = import_module("post_office.mail"), import_module("post_office.models")
    sources = {
        "subject": _source("weir/orders/shipped_subject.txt").strip(),
        "content": _source("weir/orders/shipped.txt"),
        "html_content": _source("weir/orders/shipped.html"),
    }
    template, _ = models.EmailTemplate.objects.update_or_create(name="shipped", defaults=sources)

    def queue(order_id: int, address: str) -> None:
        mail.send(
            [address],
            settings.DEFAULT_FROM_EMAIL,
            template=template,
            context={"order": Order.objects.get(pk=order_id)},
        )

    return queue, lambda: _count("post_office_email")


def _source(name: str) -> str:
    path: Path = Path(get_template(name).origin.name)  # type: ignore[attr-defined]  # of Django's own engine
    return path.read_text(encoding="utf-8")


def _count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])
