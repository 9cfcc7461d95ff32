"""The statements that a large outbox depends on, as workers, commands and pages execute them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib.resources import files
from io import StringIO
from uuid import UUID

from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from benchmarks.once import queues
from benchmarks.once.large import KINDS
from weir.postgres import planner
from weir.workers.ledger.leases import SWEPT_AT_ONCE
from weir.workers.mail.models import Email
from weir.workers.mail.phases import NAMES, EmailState
from weir.workers.mail.reports import counts, searching
from weir.workers.mail.sending import leases
from weir.workers.mail.sending.source import BATCH

TOKEN = UUID(int=1)
LEASE = timedelta(minutes=5)
ADDRESS = queues.ADDRESS % 4_711
CLAIMED = {"limit": BATCH, "token": TOKEN, "claimed_by": "bench:1", "lease": LEASE, **leases.taking(leases.ALL_KINDS)}
OUTCOME = {
    "token": TOKEN,
    "state": "sent",
    "phase": "",
    "last_reply": "250 OK",
    "attempts": 1,
    "retry_in": timedelta(),
    "reference": "",
    "settles": True,
}


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A statement, and what is executed before it in its transaction."""

    title: str
    text: str
    parameters: dict[str, object] = field(default_factory=dict)
    before: Callable[[], object] = _nothing


def statements() -> Iterator[Planned]:
    """Yield the statements."""
    yield from _of_web_code()
    yield from _of_mailers()
    yield from _of_reports()
    yield from _of_maintenance()


def _of_web_code() -> Iterator[Planned]:
    yield _from_file("weir.workers.mail", "find", {"kind": KINDS[0], "key": "order-4800000"})
    queue = {"row": 1, "kind": KINDS[0], "priority": 0}
    yield _from_file("weir.workers.mail", "does_older_wait", queue)


def _of_mailers() -> Iterator[Planned]:
    due = Email.objects.due().first()
    if due is None:
        raise AssertionError("No e-mail is due")
    one = {"row": due.pk, "token": TOKEN}

    def claimed() -> None:
        _change(due, state=EmailState.CLAIMED, claim_token=TOKEN, claimed_until=due.created_at)

    begin = one | {"relay": "mail.example:25", "asked_for": None, "lease": None, "is_probed": False}
    yield _from_file("weir.workers.mail", "claim", CLAIMED)
    yield _from_file("weir.workers.mail", "begin", begin, claimed)
    yield _from_file("weir.workers.mail", "record", one | OUTCOME, claimed)
    yield _of_queryset("take_back_abandoned", Email.objects.abandoned()[:SWEPT_AT_ONCE])
    yield _of_queryset("end_silent", Email.objects.silent(timedelta(minutes=30))[:SWEPT_AT_ONCE])


def _of_reports() -> Iterator[Planned]:
    yield _from_file("weir.workers.mail", "states", {"most": counts.MOST}, planner.by_indexes)
    yield _from_file("weir.workers.mail", "kinds", {"most": counts.MOST, "registered": [*KINDS]}, planner.by_indexes)
    yield _from_file("weir.workers.mail", "sent", {"within": counts.DAY, "most": counts.MOST_SENT}, planner.by_indexes)
    for state in EmailState:
        yield from _of_call(f"list_{state}", partial(_list, "--state", state.value))
        yield from _of_call(f"list_{state}_of_kind", partial(_list, "--state", state.value, "--kind", KINDS[0]))
    yield from _of_call("list_to", partial(_list, "--to", ADDRESS))
    yield from _of_call("list_to_beginning", partial(_list, "--to", "customer.47"))
    for what, text in {
        "address_beginning": "customer.47",
        "key": "order-4800000",
        "message_id": f"{KINDS[0]}-order-4800000@localhost",
        "nothing": "nobody",
    }.items():
        yield from _of_call(f"search_{what}", partial(_search, text))


def _of_maintenance() -> Iterator[Planned]:
    long_ago = "1970-01-01T00:00Z"
    some = {"older_than": 0.0, "after": long_ago, "after_id": 0, "batch": 500}
    yield _from_file("weir.workers.mail", "purge_renderings", some)
    address = {"address": ADDRESS, "pattern": ADDRESS.replace(".", r"\."), "instead": "It went.", "batch": 500}
    yield _from_file("weir.workers.mail", "forget", address)


def _from_file(
    package: str, name: str, parameters: dict[str, object], before: Callable[[], object] = _nothing
) -> Planned:
    text = _text(package, name)
    return Planned(title=name, text=text, parameters=parameters, before=before)


def _text(package: str, name: str) -> str:
    """Return the text of a statement of the package, or of the ledger, for the package's table."""
    file = files(package).joinpath("sql", f"{name}.sql")
    if file.is_file():
        return file.read_text(encoding="utf-8")
    text = files("weir.workers.ledger").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    for placeholder, sql in NAMES._asdict().items():
        text = text.replace(f"{{{placeholder}}}", sql)
    return text


def _of_queryset(title: str, rows: QuerySet[Email]) -> Planned:
    """Return the statement that locks the rows."""
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        list(rows.select_for_update(of=("self",), skip_locked=True))
    return Planned(title=title, text=queries[-1]["sql"].replace("%", "%%"))


def _of_call(title: str, call: Callable[[], object]) -> Iterator[Planned]:
    """Yield the statements about e-mails that the call executes by Django's cursors."""
    with CaptureQueriesContext(connection) as queries:
        call()
    texts = [query["sql"] for query in queries if 'FROM "weir_mail_email"' in query["sql"]]
    for number, text in enumerate(texts, 1):
        yield Planned(
            title=title if len(texts) == 1 else f"{title}_{number}",
            text=text.replace("%", "%%"),
        )


def _list(*arguments: str) -> None:
    call_command("emails", "list", *arguments, stdout=StringIO())


def _search(text: str) -> None:
    list(searching.matching(Email.objects.order_by("-pk"), text)[:100])


def _change(email: Email, **values: object) -> None:
    Email.objects.filter(pk=email.pk).update(**values)
