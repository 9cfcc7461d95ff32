"""How many e-mails were sent in the last hour and day: as COUNT(*) says, among 100,000, without reading them all."""

from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from tests.integration.plans import plan_of, rows_read
from weir.postgres import planner
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.reports import counts

ROWS = 100_000
# An e-mail every 20 seconds until now, in about the order of their rows, as they end: 23 days.
FILL = f"""
    INSERT INTO weir_mail_email (
        kind, key, message_id, recipient, state, attempts, claimed_by, phase, last_reply, sent_at, ended_at
    )
    SELECT CASE WHEN n %% 7 = 0 THEN 'order.shipped' ELSE 'news' END, n, '<' || n || '@shop.example>',
        'kim.' || n || '@customers.example', state, 0, '', '', 'x', CASE WHEN state = 'sent' THEN now() END,
        CASE WHEN state <> 'pending' THEN
            now() - ({ROWS} - n) * interval '20 seconds' + random() * interval '1 minute'
        END
    FROM (
        SELECT n, CASE WHEN n %% 10 = 0 THEN 'failed' WHEN n %% 10 = 1 THEN 'pending' ELSE 'sent' END AS state
        FROM generate_series(1, {ROWS}) AS n
    ) AS numbered
"""

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def _many(shared_rows: None) -> None:  # noqa: ARG001  must come first
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_mail_email CASCADE")
        cursor.execute(FILL.replace("%%", "%"))
        cursor.execute("VACUUM ANALYZE weir_mail_email")


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("within", [counts.HOUR, counts.DAY])
def test_numbers_by_kind_are_true(within: timedelta) -> None:
    with transaction.atomic():  # both counts see the same moment
        found = counts.sent(within)
        emails = Email.objects.filter(state=EmailState.SENT, ended_at__gt=Now() - within)
        assert found.by_kind == Counter(emails.values_list("kind", flat=True))
    assert (found.number, found.or_more) == (emails.count(), False)
    assert set(found.by_kind) == {"news", "order.shipped"}


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("is_stale", [False, True])
def test_their_cost_does_not_grow_with_the_table(is_stale: bool) -> None:
    """Whatever the statistics say: only a day's blocks are read, up to a bound if more were sent in a day."""
    parameters: dict[str, object] = {"within": counts.DAY, "most": counts.MOST_SENT}
    with transaction.atomic(), connection.cursor() as cursor:
        if is_stale:
            cursor.execute("UPDATE pg_statistic SET stanullfrac = 0 WHERE starelid = 'weir_mail_email'::regclass")
        planner.by_indexes()
        scans = {node["Node Type"] for node in plan_of("weir.workers.mail", "sent", parameters)}
        assert "Seq Scan" not in scans
        a_day = round(counts.DAY.total_seconds() / 20)
        assert rows_read("weir.workers.mail", "sent", parameters, "weir_mail_email") < 2.5 * a_day
        transaction.set_rollback(True)


@pytest.mark.usefixtures("_many")
def test_beyond_a_bound_they_say_or_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MOST_SENT", 100)
    for within in (counts.HOUR, counts.DAY):
        found = counts.sent(within)
        assert (found.number, found.or_more) == (100, True)
    [news] = [kind for kind in counts.of_kinds() if kind.kind == "news"]
    assert (news.sent_hour_or_more, news.sent_day_or_more) == (True, True)
    assert 0 < news.sent_day <= 100


def test_one_that_was_found_to_have_arrived_was_sent_when_it_was_sent() -> None:
    """An operator who reads the logs of an outage resolves thousands within an hour."""
    email = Email.objects.create(
        kind="arrived",
        key="1",
        message_id="<arrived@shop.example>",
        recipient="kim@customers.example",
        state=EmailState.UNKNOWN,
        phase=Phase.AFTER_DOT,
        last_reply="No reply",
        claim_token=uuid4(),
        sending_since=Now() - timedelta(hours=5),
        ended_at=Now() - timedelta(hours=5),
    )
    resolving.resolve(email.pk, Act.ARRIVED, "Ada", "The log says so.")
    assert [counts.sent(within).by_kind.get("arrived") for within in (counts.HOUR, counts.DAY)] == [None, 1]
