"""`raises=False`: what cannot be rendered is stored all the same, and does not stop the caller's transaction."""

from typing import Any

import pytest
from django.db import connection, transaction

from tests.integration.mail.notes import note, note_kind  # noqa: F401  a fixture
from tests.integration.mail.shipments import DATABASE, ship, state
from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import runner

pytestmark = [DATABASE, pytest.mark.usefixtures("note_kind")]


@pytest.mark.usefixtures("messages")
def test_what_must_be_stored_whatever_it_is_fails_in_a_mailer_and_says_why() -> None:
    """Unless it can be rendered by then."""
    bad = note("bad", to="kim", raises=False)
    good = note("good", context={"subject": "a\nb"}, raises=False)
    kinds._kinds["note"] = lambda **_context: Content(subject="Right", text="Right")
    assert runner.send_due().failed == 1
    assert (state(bad), bad.last_reply) == ((EmailState.FAILED, 0), "'kim' is not an e-mail address.")
    assert (state(good), good.subject) == ((EmailState.SENT, 1), "Right")


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("to", ["kim\0@customers.example", "kim\ud83d@customers.example"])
def test_an_address_that_postgres_would_refuse_is_stored_all_the_same(to: str) -> None:
    """With `raises=False`, the e-mail must not stop the caller's transaction."""
    with transaction.atomic():
        email = note(to=to, raises=False)
    assert runner.send_due().failed == 1
    assert (state(email), email.recipient) == ((EmailState.FAILED, 0), "")


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("query", ["SELECT 1 / 0", "SET LOCAL statement_timeout = 10; SELECT pg_sleep(10)"])
def test_a_kind_whose_query_fails_does_not_stop_the_callers_transaction(query: str) -> None:
    """PostgreSQL aborts the savepoint in which the query failed, not the caller's own work."""

    def failing(**_context: Any) -> Content:
        with connection.cursor() as cursor:
            cursor.execute(query)
        raise AssertionError

    kinds._kinds["note"] = failing
    with transaction.atomic():
        email = note(raises=False)
        ship()
    assert Email.objects.count() == 2
    assert (state(email), email.renderings) == ((EmailState.PENDING, 0), 0)
