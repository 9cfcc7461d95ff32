"""A room writes its own tables. Of another's, it writes what the other lets it: what its views have."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django.apps import apps

from project.checkout import CHECKOUT
from tests.cases import for_each
from tests.rooms import NAMED
from tests.unit.postgres.test_statements import FILES, ROOTS
from tests.unit.postgres.written import LOCKS, Written, by_module, by_sql
from weir.postgres.weir_apps import WeirApp

# What others may set through a room's views (ratelimit/migrations/0003_doors.py); to lock their rows, too.
VIEWS = {
    "weir_ratelimit_backlog": {"has_backlog", "due_at"},
    "weir_ratelimit_slot_use": {"claimed_at", "finished_at", "released_at", "passed_on_at"},
}
CANCELLED = frozenset({"state", "claim_token", "claimed_until", "ended_at", "last_reply"})
# What a room writes of another's tables all the same.
EXCEPTIONS = {
    # It reserves for the fetches that it picks, at two thousand sites in one statement, under the locks of the sites'
    # rows. What it writes is computed by functions of ratelimit's: test_dispatch_reserves_by_functions_of_ratelimit.
    "workers/fetches/sql/dispatch.sql": {
        Written(LOCKS, "weir_ratelimit_site"),
        Written("UPDATE", "weir_ratelimit_site", frozenset({"next_start", "turn_share", "turn_used"})),
        Written("INSERT", "weir_ratelimit_slot"),
    },
    # Triggers: whatever ends a fetch ends the effect that nobody else would begin.
    "workers/fetches/migrations/0030_effect.py": {Written("UPDATE", "weir_effects_effect", CANCELLED)},
    "workers/fetches/migrations/0033_effect_ends_with_fetch.py": {
        Written("UPDATE", "weir_effects_effect", CANCELLED | {"begun_at", "phase"})
    },
    # Notes when a token was shown: for `weir.api`, in whose folder tokens are a room of their own.
    "weir/api/access.py": {Written("UPDATE", "weir_tokens_token", frozenset({"last_used_at"}))},
    # The demo is the shop that has these orders.
    "demo/warehouse.py": {Written("INSERT", "weir_orders_order")},
    # A project's test says how a fetch ends. Nothing is started in the slot that this takes.
    "weir/testing/answers.py": {
        Written("INSERT", "weir_ratelimit_slot"),
        Written("UPDATE", "weir_fetches_fetch", frozenset({"state", "slot_id", "lease_until"})),
    },
}
TABLES = {model._meta.db_table: config.label for config in apps.get_app_configs() for model in config.get_models()}
MODELS = {
    model.__name__: model._meta.db_table
    for config in apps.get_app_configs()
    if isinstance(config, WeirApp)
    for model in config.get_models()
}
ROOMS = {Path(config.path).resolve(): config.label for config in apps.get_app_configs()}


class Found(NamedTuple):
    """What a file writes of another room's."""

    file: str
    written: Written


def room_of(file: Path) -> str | None:
    """Return the label of the app in whose folder the file lies."""
    return next((ROOMS[folder] for folder in file.parents if folder in ROOMS), None)


def of_others(file: Path) -> Iterator[Found]:
    """Yield what a file writes that is not its room's."""
    text = file.read_text()
    for written in by_module(text, MODELS) if file.suffix == ".py" else by_sql(text):
        if TABLES.get(written.table) != room_of(file):
            yield Found(str(file.relative_to(CHECKOUT)), written)


def all_of_others() -> list[Found]:
    modules = [file for root in (*ROOTS, "weir/testing") for file in (CHECKOUT / root).rglob("*.py")]
    return [found for file in [*FILES, *modules] for found in of_others(file)]


def is_let(written: Written) -> bool:
    """Tell whether a view lets others write that, or lock its rows."""
    columns = VIEWS.get(written.table, set())
    return bool(columns) and (written.how == LOCKS or set() < written.columns <= columns)


def test_a_room_writes_the_tables_of_another_only_where_that_lets_it() -> None:
    """So who reads the SQL of `ratelimit` has read all that moves a site's clock, or promises a start."""
    found = [each for each in all_of_others() if not is_let(each.written)]
    assert [each for each in found if each.written not in EXCEPTIONS.get(each.file, ())] == []


def test_a_ledger_is_of_the_room_that_has_its_tables() -> None:
    """The statements of the ledger write the tables that its room names, and no test of files sees which."""
    labels = {config.name: config.label for config in apps.get_app_configs()}
    for package, names in NAMED.items():
        assert (TABLES[names.table], TABLES[names.paused]) == (labels[package],) * 2


def test_each_view_is_needed() -> None:
    assert {each.written.table for each in all_of_others() if is_let(each.written)} == VIEWS.keys()


def test_each_exception_is_needed() -> None:
    found = set(all_of_others())
    assert [each for file, those in EXCEPTIONS.items() for each in those if Found(file, each) not in found] == []


def test_dispatch_reserves_by_functions_of_ratelimit() -> None:
    """It moves clocks, and makes starts, but computes neither."""
    words = (CHECKOUT / "workers/fetches/sql/dispatch.sql").read_text().split()
    text = " ".join(words).replace("( ", "(").replace(" )", ")")
    assert text.count("SET next_start = moved.next_start,") == text.count("SET next_start") == 2
    assert "weir_ratelimit_next_start(use_until, effective_interval) AS next_start" in text
    assert "arrival + weir_ratelimit_run_length(taken, spacing, effective_grace) AS use_until" in text
    assert ") AS start_time" in text.partition("weir_ratelimit_start(k, arrival, soonest, spacing, ")[2][:80]


@for_each(
    ("text", "written"),
    [
        ("UPDATE weir_a_b SET x = 1, y = 'a, b'", Written("UPDATE", "weir_a_b", frozenset("xy"))),
        (
            "WITH a AS (UPDATE weir_a_b AS b SET x = f(1, (2)), y = CASE WHEN c IS DISTINCT FROM y THEN 1 END FROM c)",
            Written("UPDATE", "weir_a_b", frozenset("xy")),
        ),
        ("UPDATE weir_a_b SET (x, y) = (SELECT 1, 2)", Written("UPDATE", "weir_a_b", frozenset("?"))),
        ("INSERT INTO weir_a_b (x) SELECT 1 ON CONFLICT (x) DO UPDATE SET x = 2", Written("INSERT", "weir_a_b")),
        ("WITH gone AS (DELETE FROM weir_a_b WHERE x = 1)", Written("DELETE", "weir_a_b")),
        ("LOCK TABLE weir_a_b", Written("LOCK", "weir_a_b")),
        ("SELECT 1 FROM (SELECT 1 FROM weir_a_b AS b LIMIT 1 FOR NO KEY UPDATE) AS c", Written("LOCK", "weir_a_b")),
        ("SELECT 1 FROM weir_a_c AS c JOIN weir_a_b AS b ON true FOR UPDATE OF b", Written("LOCK", "weir_a_b")),
    ],
)
def test_what_sql_writes_is_seen(text: str, written: Written) -> None:
    assert list(by_sql(text)) == [written]


@for_each(
    ("code", "written"),
    [
        ("Book.objects.filter(x=1).update(x=2, y=3)", Written("UPDATE", "weir_a_b", frozenset("xy"))),
        ("for row in Book.objects.all():\n    row.save()", Written("UPDATE", "weir_a_b")),
        ("books = Book.objects.all()\nlate = books.filter(x=1)\nlate.delete()", Written("DELETE", "weir_a_b")),
        ("Book.objects.select_for_update().first()", Written("LOCK", "weir_a_b")),
        ("cursor.execute('DELETE FROM weir_a_b')", Written("DELETE", "weir_a_b")),
        ("cursor.execute(f'DELETE FROM weir_a_b WHERE x = {x}')", Written("DELETE", "weir_a_b")),
    ],
)
def test_what_a_module_writes_is_seen(code: str, written: Written) -> None:
    assert list(by_module(f"from a.models import Book\n{code}", {"Book": "weir_a_b"})) == [written]
