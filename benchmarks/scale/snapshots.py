"""A snapshot that a session holds open for ten minutes: what it costs reservations and dispatch meanwhile.

Each reservation replaces the row of its site. While an open snapshot may still see the old versions, vacuum cannot
remove them, and a look-up that begins with the first index entry passes all of them. The benchmark does not wait for
ten minutes: it gives the rows as many versions as ten minutes of single reservations would, at several rates.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.rounds import Side, middle, rate, ratio, take_turns
from benchmarks.scale import tables
from benchmarks.scale.explained import recorded, statement_takes
from weir.ratelimit import slots
from weir.workers.fetches.dispatch import dispatch

HELD_S = 600
RATES = (1, 3, 10, 30, 100)  # of the hot site, a second
SITES = int(1_000 * tables.SHARE)  # each reserved once a second, by dispatch
QUEUES = int(200 * tables.SHARE)  # sites with a queue, of which three fetches a second end
CALM = int(1_000 * tables.SHARE)  # sites in which only the measurement reserves, for comparison
FAR = 1e9  # seconds that a reservation may lie ahead; no caller waits for it
ROUNDS, CALLS = 7, 40
HOT = "hot-1.bench"

FILL = f"""
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    SELECT kind || n || '.bench', interval '333 ms', 1, kind = 'queue-', false
    FROM (VALUES ('queue-', {QUEUES}), ('site-', {SITES}), ('calm-', {CALM}), ('hot-', 1)) AS kinds(kind, most),
        generate_series(1, most) AS n
    ORDER BY kind = 'queue-' DESC, n;

    INSERT INTO weir_fetches_fetch ({tables.COLUMNS}, not_before)
    SELECT 'http://queue.bench/' || n, '', 0, n % {QUEUES} + 1, 'queued', 0, 0, 5, '[]', '', '', '', '',
        now() - interval '1 day' + n * interval '1 ms'
    FROM generate_series(1, {QUEUES * HELD_S * 4}) AS n;
"""
# By ctid, so that no statement passes the old versions.
REPLACE_HOT = f"""
    DO $$
    DECLARE place tid;
    BEGIN
        SELECT ctid INTO place FROM weir_ratelimit_site
        WHERE name >= '{HOT}' AND name <= '{HOT}' ORDER BY name DESC LIMIT 1;
        FOR number IN 1..%d LOOP
            UPDATE weir_ratelimit_site SET next_start = next_start + interval '1 ms' WHERE ctid = place
            RETURNING ctid INTO place;
            COMMIT;
        END LOOP;
    END $$
"""
REPLACE_MANY = f"""
    DO $$
    BEGIN
        FOR number IN 1..{HELD_S} LOOP
            UPDATE weir_ratelimit_site SET next_start = next_start + interval '1 s'
            WHERE name LIKE 'site-%' OR name LIKE 'queue-%';
            COMMIT;
        END LOOP;
    END $$
"""
TAKE_FROM_QUEUES = f"""
    UPDATE weir_fetches_fetch SET state = 'done', status_code = 200, finished_at = now()
    WHERE id <= {QUEUES * HELD_S * 3}
"""
QUEUES_ARE_DUE = "UPDATE weir_ratelimit_site SET next_start = clock_timestamp() WHERE name LIKE 'queue-%'"


def measure(plans: Path) -> list[Figure]:
    """Return the rates of reservations and the time of a tick: before, with and after the snapshot.

    Each rate comes with its ratio to reservations in calm sites, which take turns with it.
    """
    database.run_at_length(FILL)
    tables.vacuum()
    with recorded():
        dispatch()
    calm = _reserving([f"calm-{number}.bench" for number in range(1, CALM + 1)])
    hot = partial(_compare, "hot_site", _reserving([HOT]), calm)
    many = partial(_compare, "many_sites", _reserving([f"site-{number}.bench" for number in range(1, SITES + 1)]), calm)
    figures = [*hot("before"), *many("before"), _tick(plans, "before")]
    with _snapshot():
        replaced = 0
        for a_second in RATES:
            _quickly(REPLACE_HOT % (a_second * HELD_S - replaced))
            replaced = a_second * HELD_S
            figures += hot(f"at_{a_second}_a_second")
        _quickly(REPLACE_MANY)
        figures += many("at_1_a_second")
        _quickly(TAKE_FROM_QUEUES)
        figures.append(_tick(plans, "after_10_min"))
    figures += [*hot("when_closed"), *many("when_closed")]
    tables.vacuum()
    return [*figures, *hot("vacuumed"), *many("vacuumed"), _tick(plans, "vacuumed")]


@contextmanager
def _snapshot() -> Iterator[None]:
    """Hold a snapshot open."""
    with database.connect() as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM weir_ratelimit_site")
        yield
        other.execute("ROLLBACK")


def _quickly(statement: str) -> None:
    """Execute a statement without waiting for the disk at each commit."""
    with database.set_for_block(synchronous_commit="off"):
        database.run_at_length(statement)


def _reserving(names: list[str]) -> Side:
    """Return a side that reserves at these sites in turn."""
    name = cycle(names)

    def reserve() -> None:
        for _ in range(CALLS):
            slots.reserve(next(name), max_wait=FAR)

    return lambda: rate(CALLS, reserve)


def _compare(what: str, side: Side, calm: Side, when: str) -> list[Figure]:
    rounds = take_turns(ROUNDS, side, calm)
    return [
        Figure(name=f"scale_snapshot_{what}_{when}", value=middle(rounds, 0), unit="reservations/s"),
        Figure(name=f"scale_snapshot_{what}_{when}_slower", value=ratio(rounds, 1, 0), unit="x"),
    ]


def _tick(plans: Path, when: str) -> Figure:
    _quickly(QUEUES_ARE_DUE)
    return statement_takes(plans, f"snapshot_dispatch_{when}", "weir.workers.fetches", "dispatch", {"after": 0})
