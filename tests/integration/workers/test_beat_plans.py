"""What beat asks before ticks is answered by index entries, whatever PostgreSQL has counted and planned."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from tests.integration.plans import believe_empty, explain
from tests.rooms import statement
from weir.postgres import sessions
from weir.workers.throttled.apps import PUBLISH_HAS_WORK

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = {
    "weir_ratelimit_site",
    "weir_fetches_fetch",
    "weir_mail_email",
    "weir_notifications_notification",
}
QUESTIONS = (
    ("weir.workers.fetches", "dispatch_has_work"),
    ("weir.workers.fetches", "sweep_has_work"),
    ("weir.workers.mail", "has_work"),
    ("weir.notifications", "expire_has_work"),
    ("weir.notifications", "digests_have_work"),
)
ROWS = 2_000
# All of it is to be done, and counted; and then is done.
FILL = f"""
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, due_at, covers_subdomains)
    SELECT n || '.example', '1 s', 1, n % 2 = 0, CASE WHEN n % 2 = 1 THEN now() END, false
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, redirects, site_id, priority, attempts, max_attempts, headers, etag, last_modified, error,
        on_done, state, not_before
    )
    SELECT 'http://one.example/' || n, '', 0, n, 1, 0, 5, '[]', '', '', '', 'shop.done', 'queued', now()
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO weir_mail_email (
        kind, key, recipient, context, expires_at, state, attempts, content_size, message_id, claimed_by, phase,
        last_reply
    )
    SELECT 'test', n, 'a@b.example', '{{}}', now(), 'pending', 0, 0, '', '', '', ''
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, expires_at, digest_due_at)
    SELECT (SELECT max(id) FROM auth_user), 'test', 'text', '', '', now(), now() FROM generate_series(1, {ROWS}) AS n;
    ANALYZE {", ".join(sorted(TABLES))};
    UPDATE weir_ratelimit_site SET has_backlog = false, due_at = NULL;
    UPDATE weir_fetches_fetch SET state = 'done', finished_at = now(), status_code = 200, on_done_called_at = now();
    UPDATE weir_mail_email SET state = 'sent', sent_at = now(), ended_at = now();
    UPDATE weir_notifications_notification SET expires_at = NULL, digest_due_at = NULL
"""


MANY_TASKS = """
    INSERT INTO weir_throttled_postponedtask (site, task, signature, max_wait, publications)
    SELECT 'one.example', 'shop.ask', '{}', 1, 0 FROM generate_series(1, 3000)
"""


@pytest.fixture
def _done(transactional_db: None) -> None:  # noqa: ARG001  must come first
    get_user_model().objects.create(username="reader")
    with connection.cursor() as cursor:
        for statement in FILL.split(";"):
            cursor.execute(statement)


@pytest.mark.usefixtures("_done")
def test_questions_read_no_table_where_statistics_are_old() -> None:
    """They say that the first row will do, which is true no more."""
    read = {
        (name, node["Relation Name"])
        for room, name in QUESTIONS
        for node in explain(statement(room, name).text)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in TABLES
    }
    assert not read


def test_questions_are_planned_anew_for_tables_that_have_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beat's session stays open; a plan for an empty table reads all of it until statistics are gathered."""
    monkeypatch.setattr(sessions, "PLANNED_FOR_S", 0.0)
    believe_empty("weir_throttled_postponedtask")
    assert read_by_the_publishers_question() == "Seq Scan"
    with connection.cursor() as cursor:
        cursor.execute(MANY_TASKS)
    assert "Index" in read_by_the_publishers_question()


def read_by_the_publishers_question() -> str:
    """Ask it, and return how PostgreSQL reads the table by the plan that it has."""
    PUBLISH_HAS_WORK()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%%publisher has anything to do%%'"
        )
        [[name]] = cursor.fetchall()
    [node] = [node for node in explain(f"EXECUTE {name}") if "Relation Name" in node]
    return str(node["Node Type"])
