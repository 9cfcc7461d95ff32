"""The plans of the statements that large installations depend on, executed and rolled back."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks import database
from weir.notifications import inbox
from weir.notifications.inbox import reading
from weir.notifications.reconciliation import page

LOOKED_AT = 5_000  # users


def write(into: Path, part: str, user_id: int) -> None:
    """Append the plans, around this user, to the file."""
    with into.open("a", encoding="utf-8") as out:
        for title, plan in _plans(user_id):
            out.write(f"-- {part}: {title}\n{plan}\n\n")


def _plans(user_id: int) -> Iterator[tuple[str, str]]:
    several = list(range(user_id, user_id + LOOKED_AT))
    now = datetime.now(UTC)
    statements: dict[str, dict[str, object]] = {
        "unread_numbers": {
            "users": [user_id],
            "incarnation": "",
            "open_epoch": 0,
            "most_counted": reading.MOST_COUNTED,
        },
        "slice_of_users": {"after": user_id, "users": page.USERS, "rows": page.ROWS},
        "changed_users": {
            "after": now - timedelta(hours=1),
            "after_id": 0,
            "until": now,
            "most": page.USERS,
        },
        "stored_unread": {"users": several},
        "count_unread": {"users": several},
        "apply_epoch": {"epoch": 2**62, "users": several, "deltas": [1] * LOOKED_AT, "cap": 1_000},
        "purge_notifications": {"older_than": 0.0, "kept": [], "batch": 1_000},
    }
    for name, parameters in statements.items():
        text = files("weir.notifications").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
        yield name, database.explain(text.replace("::user_key", "::bigint"), parameters)
    calls: dict[str, Callable[[], object]] = {
        "inbox.page": lambda: inbox.page(user_id),
        "inbox.page of unread ones": lambda: inbox.page(user_id, unread_only=True),
    }
    for title, call in calls.items():
        with CaptureQueriesContext(connection) as queries:
            call()
        yield title, database.explain(queries[-1]["sql"].replace("%", "%%"), {})
