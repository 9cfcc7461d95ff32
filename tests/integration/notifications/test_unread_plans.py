"""What reading and reconciling unread numbers costs PostgreSQL: plans on 200,000 rows read none too many of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.integration.plans import explain, generic_plan_of, plan_of, rows_read
from weir.notifications import inbox
from weir.notifications.inbox import read_marks

pytestmark = pytest.mark.django_db

ROWS, USERS = 200_000, 2_000
USER = 7  # has a hundredth of all rows
NOTIFICATIONS = "weir_notifications_notification"
TABLES = f"{NOTIFICATIONS}, weir_notifications_unreadcount"
FILL = f"""
    INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, created_at, changed_at, read_at)
    SELECT
        CASE WHEN n % 100 = 0 THEN {USER} ELSE 1 + n % {USERS} END, 'news', 'Hello', '', '', at, at,
        CASE WHEN n % 7 > 0 THEN at END
    FROM generate_series(1, {ROWS}) AS n, LATERAL (SELECT now() - n * interval '1 minute' AS at) AS moment;
    INSERT INTO weir_notifications_unreadcount
    SELECT user_id, count(*) FILTER (WHERE read_at IS NULL), 0 FROM weir_notifications_notification GROUP BY user_id;
"""
LATELY = datetime.now(UTC) - timedelta(minutes=5)
PAGE = 20
UNREAD_OF_USER, MOST = 299, 100
UNREAD = "weir_notification_unread"  # its twin, which is for users with a read mark, is as good
Nodes = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["with statistics", "without statistics"])
def rows(request: pytest.FixtureRequest, shared_rows: None) -> None:  # noqa: ARG001  must come first
    """Make 200,000 notifications of 2,000 users, a seventh of them unread."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")
        cursor.execute(FILL)
        if request.param == "with statistics":
            cursor.execute(f"ANALYZE {TABLES}")
        else:
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_notifications_notification'::regclass")


def indexes(nodes: Nodes) -> set[str]:
    """Return the indexes that a plan uses on notifications; fails if it reads the table from end to end."""
    of_notifications = [node for node in nodes if node.get("Relation Name") == "weir_notifications_notification"]
    assert not [node for node in of_notifications if node["Node Type"] == "Seq Scan"]
    return {node["Index Name"] for node in nodes if node.get("Index Name", "").startswith("weir_notification_")}


def page_plan(**options: Any) -> Nodes:
    """Return the plan of the query that inbox.page makes."""
    with CaptureQueriesContext(connection) as queries:
        assert len(inbox.page(USER, **options)) == PAGE
    text = queries[-1]["sql"]
    assert "OFFSET" not in text
    return explain(text)


@pytest.mark.usefixtures("rows")
def test_pages_come_sorted_from_their_indexes() -> None:
    """The first page and one far back, of all notifications and of the unread ones; never by OFFSET."""
    for before in (None, ROWS // 2):
        for unread_only, index in ((False, "weir_notification_inbox"), (True, "weir_notification_unread")):
            plan = page_plan(before=before, unread_only=unread_only)
            assert indexes(plan) == {index}
            assert not [node for node in plan if "Sort" in node["Node Type"]]


@pytest.mark.usefixtures("rows")
def test_passes_and_purges_read_what_they_look_for_and_no_more() -> None:
    """Users who changed lately, a slice of the full scan, a look, rows read long ago: each by its index."""
    plans: dict[str, tuple[dict[str, object], str]] = {
        "changed_users": (
            {"after": LATELY, "after_id": 0, "until": LATELY + timedelta(minutes=5), "most": 20_000},
            "weir_notification_changes",
        ),
        "slice_of_users": ({"after": 1_000, "users": 100, "rows": 1_000}, UNREAD),
        "count_unread": ({"users": list(range(1, 101))}, UNREAD),
        "purge_notifications": ({"older_than": 86_400.0, "batch": 1_000, "kept": [7]}, "weir_notification_read"),
    }
    for name, (parameters, index) in plans.items():
        assert indexes(plan_of("weir.notifications", name, parameters)) in ({index}, {f"{index}_since"}), name


@pytest.mark.usefixtures("rows")
def test_settling_and_removal_read_a_batch_and_no_more() -> None:
    """For a user with many covered rows, one far above the cap, and many rows that have expired: each by its index."""
    batch = 20
    trimmed: dict[str, object] = {"user": USER, "cap": MOST, "batch": batch}
    assert indexes(plan_of("weir.notifications", "trim", trimmed)) == {UNREAD}
    assert batch <= rows_read("weir.notifications", "trim", trimmed, NOTIFICATIONS) <= MOST + 1 + 3 * batch

    read_marks.mark_all(USER)
    settled: dict[str, object] = {"user": USER, "after": 0, "batch": batch}
    assert indexes(plan_of("weir.notifications", "settle_marked", settled)) == {UNREAD}
    assert batch <= rows_read("weir.notifications", "settle_marked", settled, NOTIFICATIONS) <= 3 * batch

    with connection.cursor() as cursor:
        cursor.execute("UPDATE weir_notifications_notification SET expires_at = created_at WHERE id % 100 = 0")
    expired: dict[str, object] = {"batch": batch}
    assert indexes(plan_of("weir.notifications", "expire", expired)) == {"weir_notification_expires"}
    assert batch <= rows_read("weir.notifications", "expire", expired, NOTIFICATIONS) <= 3 * batch


@pytest.mark.usefixtures("rows")
def test_forgetting_users_looks_at_their_notifications_and_no_others() -> None:
    """However many others there are, and whatever PostgreSQL knows of the notes."""
    users = "{" + ",".join(map(str, range(1, 1_001))) + "}"
    plans: dict[str, dict[str, object]] = {
        "noted_forgetting": {"after": 7, "most": 1_000},
        "delete_forgotten": {"user": USER, "after": 0, "batch": 1_000},
        "returned_users": {"users": users},
        "finish_forgetting": {"users": users, "oldest_live": 7},
    }
    for name, parameters in plans.items():
        assert indexes(plan_of("weir.notifications", name, parameters)), name


@pytest.mark.usefixtures("rows")
def test_what_web_code_calls_most_uses_indexes_whatever_it_is_called_with() -> None:
    """These statements are prepared, and may get one plan for all parameters."""
    assert indexes(generic_plan_of("weir.notifications", "unread_numbers")) == {f"{UNREAD}_since"}
    found_by = indexes(generic_plan_of("weir.notifications", "mark_all_read")) - {UNREAD}  # it may find rows by id
    assert found_by == {f"{UNREAD}_since"}
    assert indexes(generic_plan_of("weir.notifications", "mark_read")) == set()  # by the primary key
    assert indexes(generic_plan_of("weir.notifications", "mark_unread")) == {"weir_notification_inbox"}


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("name", ["by_kind", "mark_all_read", "uncovered"])
def test_what_no_mark_covers_is_asked_for_within_the_statement(name: str) -> None:
    """PostgreSQL plans as if the function's query stood there, and calls nothing."""
    plan = generic_plan_of("weir.notifications", name)
    assert "weir_notifications_uncovered" not in str(plan)
    assert f"{UNREAD}_since" in indexes(plan)


@pytest.mark.usefixtures("rows")
def test_counting_by_kind_reads_what_it_counts_and_no_more() -> None:
    """The rows come in the order of their index, whatever PostgreSQL expects, and end where enough were counted.

    What a read mark covers is not among them.
    """
    for most in (MOST, inbox.reading.MOST_COUNTED):
        parameters: dict[str, object] = {"user": USER, "most_counted": most}
        for plan in (
            plan_of("weir.notifications", "by_kind", parameters),
            generic_plan_of("weir.notifications", "by_kind"),
        ):
            assert indexes(plan) == {f"{UNREAD}_since"}
            assert not [node for node in plan if "changed_xid" in str(node.get("Sort Key"))]
        read = rows_read("weir.notifications", "by_kind", parameters, "weir_notifications_notification")
        assert read == min(most, UNREAD_OF_USER)
    read_marks.mark_all(USER)
    inbox.notify(USER, "news", "not covered")
    assert rows_read("weir.notifications", "by_kind", parameters, "weir_notifications_notification") == 1


@pytest.mark.usefixtures("valkey")
def test_reading_a_number_is_planned_once_a_connection() -> None:
    """Planning takes longer than all the rest, so one plan for any number of users is kept from the sixth call on."""
    for _ in range(20):
        inbox.unread_count(1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%%WITH redis AS%%'"
        )
        assert cursor.fetchall() == [(15, 5)]
