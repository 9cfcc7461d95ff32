"""The benchmark of pages asks for pages that are there, and tells what reads a large table from end to end."""

from pathlib import Path

import pytest
from django.db import connection

from benchmarks import pages
from benchmarks.pages import plans
from benchmarks.pages.size import Size

pytestmark = pytest.mark.django_db(transaction=True)

# Pages show fifty rows at most, most of which these tables have: more take longer to show, and prove no more.
SMALL = Size(
    sites=80,
    queued=100,
    queued_at_first_site=40,
    held=10,
    ended=200,
    batches=10,
    slots=200,
    users=100,
    emails=5_000,  # fewer have none that is unknown
    unknown=10,
    minutes=60,
    busiest=5,
    requests=1,
    cold=1,
)


@pytest.mark.usefixtures("valkey")
def test_each_page_is_measured(tmp_path: Path) -> None:
    """Else a long benchmark ends in the middle."""
    names = {figure.name for figure in pages.measure(tmp_path, SMALL)}
    assert {
        "overview live_p99",
        "sites?sort=refusals p50",
        "fetch_queued cold",
        "batch_running cold",
        "metrics statements",
    } <= names
    assert "weir_history_minute" in (tmp_path / "pages" / "overview.txt").read_text()


def test_a_statement_that_reads_a_large_table_whole_is_named() -> None:
    """One that reads some rows of it by an index is not."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO weir_notifications_unreadcount SELECT n, 0, 0 FROM generate_series(1, 20000) AS n")
        cursor.execute("ANALYZE weir_notifications_unreadcount")
        with plans.explained() as asked:
            cursor.execute("SELECT count(*) FROM weir_notifications_unreadcount WHERE unread_count > 0")
            cursor.execute("SELECT * FROM weir_notifications_unreadcount WHERE user_id = %s", [7])
    whole = [list(one.reads_whole(plans.large_tables())) for one in asked]
    assert whole == [["Seq Scan on weir_notifications_unreadcount: 20,000 of 20,000 rows"], []]
