"""What is due is found by its index, among 80,000 e-mails of which 50 are due, however many wait for later."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from tests.integration.plans import explain, generic_plan_of, plan_of, rows_read, scanned
from weir.workers.mail.admin import EmailAdmin
from weir.workers.mail.bounces.arrivals import EXPECTING
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import leases

ALL = leases.taking(leases.ALL_KINDS)
CLAIM: dict[str, object] = {"limit": 60, "token": uuid4(), "claimed_by": "", "lease": timedelta(minutes=2), **ALL}
HELD = {"weir_email_held", "weir_email_not_sent", "weir_email_unsent_by_kind"}  # indexes that have what is held
ROWS, DUE = 80_000, 50
FILL = f"""
    INSERT INTO weir_orders_order (id, number, customer_email, shipped_at)
    SELECT n, n, 'kim@customers.example', now() FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO weir_mail_email (kind, key, message_id, recipient, state, attempts, next_attempt_at, claimed_by, phase,
        last_reply, sent_at)
    SELECT 'order.shipped', n, '<' || n || '@shop.example>', 'kim.' || n || '@Customers.example', state, 0,
        now() + CASE WHEN is_due THEN -interval '1 minute' ELSE interval '1 hour' END, '', '', 'x',
        CASE WHEN state = 'sent' THEN now() END
    FROM (
        SELECT n, n %% {ROWS // DUE} = 0 AS is_due, CASE WHEN n %% {ROWS // DUE} = 0 THEN 'pending' ELSE %s END AS state
        FROM generate_series(1, {ROWS}) AS n
    ) AS numbered
"""


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=[EmailState.SENT, EmailState.PENDING])
def _many(shared_rows: None, request: pytest.FixtureRequest) -> None:  # noqa: ARG001  must come first
    """50 are due; the others are sent, or wait for their next attempt in an hour."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_orders_order, weir_mail_email CASCADE")
        cursor.execute(FILL, [request.param])
        cursor.execute("VACUUM ANALYZE weir_orders_order, weir_mail_email")


def nodes(queryset: QuerySet[Any]) -> list[dict[str, Any]]:
    """Return the nodes of the plan for what claim() would execute."""
    with transaction.atomic():  # otherwise Django refuses to lock
        return planned(queryset.select_for_update(of=("self",), skip_locked=True)[:50])


def planned(queryset: QuerySet[Any]) -> list[dict[str, Any]]:
    """Return the nodes of the queryset's plan."""
    text, parameters = queryset.query.sql_with_params()
    names = [f"p{number}" for number in range(len(parameters))]
    return explain(text % tuple(f"%({name})s" for name in names), dict(zip(names, parameters, strict=True)))


@pytest.mark.usefixtures("_many")
def test_what_is_due_is_found_by_an_index() -> None:
    """What is due is found in its queue, without a look at what is not due."""
    assert Email.objects.due().count() == DUE
    plan = plan_of("weir.workers.mail", "claim", CLAIM)
    scans = [node for node in plan if node.get("Relation Name") == "weir_mail_email" and "Scan" in node["Node Type"]]
    assert {node["Index Name"] for node in scans} == {"weir_email_queues", "weir_mail_email_pkey"}
    assert (
        rows_read("weir.workers.mail", "claim", CLAIM, "weir_mail_email") <= 2 * DUE + 2
    )  # to pick, and to mark; the heads of the queues


@pytest.mark.usefixtures("_many")
def test_what_mailers_hold_is_found_by_an_index() -> None:
    for held in (
        Email.objects.abandoned(),
        Email.objects.silent(timedelta(seconds=900)),
        Email.objects.unknown(),
    ):
        assert {node["Index Name"] for node in nodes(held) if "Index Name" in node} <= HELD
        assert "Seq Scan" not in {node["Node Type"] for node in nodes(held)}


@pytest.mark.usefixtures("_many")
def test_an_email_is_begun_without_a_look_at_the_others_that_are_held() -> None:
    """However many: with statistics from before they were claimed, their index seems to have none."""
    token = uuid4()
    email, *_ = Email.objects.due()
    Email.objects.due().update(state=EmailState.CLAIMED, claim_token=token, claimed_until=Now())
    begun: dict[str, object] = {"row": email.pk, "token": token, "asked_for": None, "is_probed": False}
    begun |= {"lease": None, "relay": "mail.example"}
    assert rows_read("weir.workers.mail", "begin", begun, "weir_mail_email") == 1


@pytest.mark.usefixtures("_many")
def test_what_has_expired_is_found_by_an_index_that_has_nothing_else() -> None:
    """However many wait that do not expire."""
    asked: dict[str, object] = {"batch": 1_000, "probed": []}
    plan = plan_of("weir.workers.mail", "expire", asked)
    scans = [node for node in plan if node.get("Relation Name") == "weir_mail_email" and "Scan" in node["Node Type"]]
    assert {node["Index Name"] for node in scans} <= {"weir_email_expires", "weir_mail_email_pkey"}
    assert rows_read("weir.workers.mail", "expire", asked, "weir_mail_email") == 0


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("find", "weir_email_kind_key_unique"),
        ("find_alike", "weir_email_kind_key_unique"),
        ("does_older_wait", "weir_email_queues"),
    ],
)
def test_what_web_code_asks_when_it_queues_is_one_look_into_an_index(statement: str, index: str) -> None:
    """However many wait."""
    alike = {"digest": "47", "first": "4711", "last": "4711", "digits": 2, "within": timedelta(hours=1)}
    asked = {"kind": "order.shipped", "key": "4711", "priority": 0, "row": ROWS + 1, **alike}
    plan = generic_plan_of("weir.workers.mail", statement)
    assert {node["Index Name"] for node in plan if "Scan" in node["Node Type"] and "Index Name" in node} == {index}
    assert "Seq Scan" not in {node["Node Type"] for node in plan}
    assert rows_read("weir.workers.mail", statement, asked, "weir_mail_email") == 1


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("room", ["weir.workers.mail", "weir.workers.effects"])
def test_what_is_stored_is_one_look_into_the_queue(room: str) -> None:
    """For an older one."""
    plan = generic_plan_of(room, "queue")
    assert [node["Index Name"].partition("_")[2] for node in plan if "Index Name" in node] in (
        ["email_queues"],
        ["effect_queues"],
    )
    assert not {"Seq Scan", "Sort"} & {node["Node Type"] for node in plan}


@pytest.mark.usefixtures("_many")
def test_the_email_about_an_order_is_found_by_indexes() -> None:
    """By its kind and key, and by how the address begins, the key or the Message-ID, as the admin searches."""
    (by_key,) = planned(Email.objects.filter(kind="order.shipped", key="4711"))
    assert by_key["Index Name"] == "weir_email_kind_key_unique"
    listed = Email.objects.order_by("-pk")
    request = HttpRequest()
    request.user = User(is_superuser=True)
    for text, number in (("KIM.4711", 11), ("4711", 1), ("<4711@shop.example>", 1), ("nobody", 0)):
        found, _ = EmailAdmin(Email, site).get_search_results(request, listed, text)
        assert found.count() == number
        if number:
            assert "Seq Scan" not in {node["Node Type"] for node in planned(found)}


@pytest.mark.usefixtures("_many")
def test_whether_an_email_to_an_address_is_being_sent_is_one_look_into_an_index() -> None:
    """It is asked in a request from outside: its cost does not grow with the other e-mails."""
    plan = generic_plan_of("weir.workers.mail", "expecting")
    [scan] = [node for node in plan if node.get("Relation Name") == "weir_mail_email"]
    assert (scan["Index Name"], "Index Cond" in scan) == ("weir_email_recipient", True)
    assert not any("Sort" in node["Node Type"] for node in plan)
    asked: dict[str, object] = {"addresses": ["KIM.1600@customers.example", "nobody@b.example"], "newest": 100}
    assert rows_read("weir.workers.mail", "expecting", asked, "weir_mail_email") == 1
    assert EXPECTING(**asked) == []
    Email.objects.filter(key="1600").update(ask_until=Now())
    assert EXPECTING(**asked) == ["KIM.1600@customers.example"]
    Email.objects.filter(key="1600").update(ask_until=None)


def test_a_claim_reads_no_whole_outbox_however_small() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_mail_email CASCADE")
        Email.objects.bulk_create([Email(kind="order.shipped", key=str(number)) for number in range(2_000)])
        cursor.execute("ANALYZE weir_mail_email")
    assert scanned("weir.workers.mail", "claim", CLAIM) == {"weir_mail_pausedkind"}
