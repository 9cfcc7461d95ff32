"""The queues of the sides, filled with as many e-mails as a round sends, and how each side sends what waits.

Only `SENDERS` is timed. Weir, django-mailer and django-post_office store e-mails that are already rendered, so they
render nothing within their time; the published pattern renders each e-mail.

django-post_office writes what became of a hundred e-mails after the last of them, and sends by five threads: a process
that dies in between leaves up to a hundred that were sent and are sent again. That is its default, and is not changed
here. Its own option for several processes forks them for each hundred.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from tempfile import TemporaryDirectory

from django.core.management import call_command
from django.db import connection
from django.test.utils import modify_settings, override_settings

from benchmarks.once.published import BACKEND, PublishedShippedEmail, create_table
from weir.workers.mail import renderings
from weir.workers.mail.models import Email
from weir.workers.mail.rendering import render
from weir.workers.mail.sending import runner

EMPTY = "TRUNCATE weir_orders_order, weir_mail_email, weir_mail_rendering, weir_mail_resolution RESTART IDENTITY"
FILL_ORDERS = """
    INSERT INTO weir_orders_order (number, customer_email, shipped_at)
    SELECT 'B-' || n, format(%(address)s, n), statement_timestamp() FROM generate_series(1, %(count)s) AS n
"""
FILL_EMAILS = """
    INSERT INTO weir_mail_email (
        kind, key, recipient, context, state, message_id, attempts, claimed_by, phase, last_reply
    )
    SELECT 'order.shipped', id, customer_email, jsonb_build_object('order_id', id), 'pending',
        '<order.shipped-' || id || '@localhost>', 0, '', '', ''
    FROM weir_orders_order WHERE id <= %(due)s
"""
# All are rendered like the first one, except for the Message-ID.
RENDER = """
    INSERT INTO weir_mail_rendering (email_id, content)
    SELECT id, convert_to(replace(%(content)s, %(message_id)s, message_id), 'UTF8') FROM weir_mail_email;
    UPDATE weir_mail_email SET renderings = 1, content_size = %(size)s, content_hash = 'x', subject = 'x';
    VACUUM ANALYZE weir_orders_order, weir_mail_email, weir_mail_rendering
"""
POST_OFFICE = "post_office"
PROCESSES = 4
ADDRESS = "customer.%s@customers.example"


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return this process' folder of lock files: the lock file of a run that was killed does not block another run."""
    return TemporaryDirectory()


@contextmanager
def peers(*, is_alone: bool) -> Iterator[None]:
    """Install django-mailer and django-post_office in this process, with their tables, while the block lasts.

    All of their settings are their defaults, except for the backend that sends and the place of lock files. If this
    process is not alone, django-mailer has no lock file.
    """
    folder = _folder().name
    with (
        override_settings(
            MAILER_EMAIL_BACKEND=BACKEND,
            MAILER_USE_FILE_LOCK=is_alone,
            MAILER_LOCK_PATH=f"{folder}/django-mailer",
            POST_OFFICE={"BACKENDS": {"default": BACKEND}},
        ),
        modify_settings(INSTALLED_APPS={"append": ["mailer", POST_OFFICE]}),
    ):
        import_module("post_office.mail")  # configures its logger
        logging.getLogger(POST_OFFICE).setLevel(logging.WARNING)  # it logs much about each hundred
        if is_alone:
            call_command("migrate", "mailer", verbosity=0)
            call_command("migrate", POST_OFFICE, verbosity=0)
        yield


def empty() -> None:
    """Delete all orders and their e-mails."""
    with connection.cursor() as cursor:
        cursor.execute(EMPTY)


def fill_orders(count: int, address: str = ADDRESS) -> None:
    """Store `count` shipped orders, and no e-mail."""
    empty()
    with connection.cursor() as cursor:
        cursor.execute(FILL_ORDERS, {"count": count, "address": address})


def fill(count: int, address: str = ADDRESS, due: int | None = None) -> None:
    """Store `count` shipped orders, of which the first `due` (default: all) have an e-mail that is due."""
    fill_orders(count, address)
    with connection.cursor() as cursor:
        cursor.execute(FILL_EMAILS, {"due": count if due is None else due})
        first = Email.objects.earliest("pk")
        rendered = render(first)
        values: dict[str, str | int] = {
            "content": rendered.content.decode(),
            "message_id": first.message_id,
            "size": len(rendered.content),
        }
        for statement in RENDER.split(";"):
            cursor.execute(statement, values)


def fill_django_mailer(count: int) -> None:
    """Let django-mailer store `count` e-mails through its mail backend, as an application does."""
    fill(count)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE mailer_message, mailer_messagelog")
    emails = Email.objects.select_related("rendering").order_by("pk")
    messages = [renderings.message(email, email.rendering).as_django() for email in emails]
    import_module("mailer.backend").DbBackend().send_messages(messages)


def fill_post_office(count: int) -> None:
    """Let django-post_office store `count` e-mails, many in one call, as an application may."""
    fill(count)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE post_office_email CASCADE")
    emails = Email.objects.select_related("rendering").order_by("pk")
    parts = [(email.recipient, renderings.message(email, email.rendering).parts()) for email in emails]
    import_module("post_office.mail").send_many(
        [
            {
                "recipients": [recipient],
                "sender": said.sender,
                "subject": said.subject,
                "message": said.text,
                "html_message": said.html,
                "headers": {"Message-ID": said.headers["Message-ID"]},
            }
            for recipient, said in parts
        ]
    )


def send_post_office(processes: int = 1) -> None:
    """Send the waiting e-mails, as its command `send_queued_mail` does."""
    import_module("post_office.mail").send_queued_mail_until_done(f"{_folder().name}/post_office", processes)


def fill_published(count: int, address: str = ADDRESS) -> None:
    """Store `count` orders in the table of the published pattern."""
    create_table()
    PublishedShippedEmail().place(address % number for number in range(count))


FILLERS: dict[str, Callable[[int], None]] = {
    "send_due": fill,
    "django_mailer": fill_django_mailer,
    "post_office": fill_post_office,
    f"post_office_by_{PROCESSES}": fill_post_office,
    "published": fill_published,
    "published_over_one_connection": fill_published,
}
SENDERS: dict[str, Callable[[], object]] = {
    "send_due": runner.send_due,
    "django_mailer": lambda: import_module("mailer.engine").send_all(),
    "post_office": send_post_office,
    f"post_office_by_{PROCESSES}": lambda: send_post_office(PROCESSES),
    "published": lambda: PublishedShippedEmail().send_all(),
    "published_over_one_connection": lambda: PublishedShippedEmail(over_one_connection=True).send_all(),
}
