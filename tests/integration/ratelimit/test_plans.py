"""weir_ratelimit_may_be_taken is inlined: statements find given-back slots through their index, without calling it."""

from typing import Any

import pytest
from django.db import connection

from tests.integration.plans import generic_plan_of, plan_of, rows_read
from tests.integration.ratelimit.conftest import DAY, SITE, site_at
from weir.ratelimit import site_settings
from weir.ratelimit.models import PAUSED_FOREVER

pytestmark = pytest.mark.django_db(transaction=True)

GIVEN_BACK, ALL, FEW = 5_000, 20_000, 10
SLOTS = """
INSERT INTO weir_ratelimit_slot (site_id, start_time, use_until, "interval", run_size, released_at, finished_at)
SELECT
    site.id, now(), now(), '10 s', 1,
    CASE WHEN is_given_back THEN now() END, CASE WHEN NOT is_given_back THEN now() END
FROM (
    SELECT name, n <= given_back AS is_given_back
    FROM (VALUES (%(site)s, %(few)s), ('other.example', %(given_back)s)) AS sites (name, given_back),
        generate_series(1, %(all)s) AS n
) AS wanted
JOIN weir_ratelimit_site AS site USING (name)
"""
FUNCTION = "weir_ratelimit_may_be_taken"
PARAMETERS: dict[str, dict[str, object]] = {
    "reserve": {"site": SITE, "count": 1, "places": [0], "max_wait": DAY, "added_grace": 0.0},
    "take_given_back": {"site": SITE, "max_wait": DAY, "added_grace": 0.0},
    "estimate": {"site": SITE, "count": 1, "forever": PAUSED_FOREVER, "added_grace": 0.0},
}

every_statement = pytest.mark.parametrize("statement", PARAMETERS)


@pytest.fixture(params=[False, True], ids=["no statistics", "statistics"])
def slots(request: pytest.FixtureRequest) -> None:
    """Make thousands of slots that were given back, few of them at the site, among many more that were used."""
    site_at()
    site_settings.set_rate("other.example", "1/10s")
    with connection.cursor() as cursor:
        cursor.execute(SLOTS, {"site": SITE, "few": FEW, "given_back": GIVEN_BACK, "all": ALL})
        cursor.execute(
            "DELETE FROM pg_statistic "
            "WHERE starelid IN ('weir_ratelimit_slot'::regclass, 'weir_ratelimit_site'::regclass)"
        )
        if request.param:
            cursor.execute("ANALYZE weir_ratelimit_slot, weir_ratelimit_site")


def indexes_of_slots(nodes: list[dict[str, Any]]) -> set[tuple[str, bool]]:
    """Return the indexes through which slots are found, and for each whether it is searched for single rows."""
    assert not [
        node for node in nodes if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "weir_ratelimit_slot"
    ]
    return {
        (node["Index Name"], "Index Cond" in node)
        for node in nodes
        if node.get("Index Name", "").startswith(("weir_slot_", "weir_ratelimit_slot_"))
    }


@every_statement
@pytest.mark.usefixtures("slots")
def test_the_function_is_inlined(statement: str) -> None:
    """No plan calls it; its conditions stand in its place."""
    nodes = plan_of("weir.ratelimit", statement, PARAMETERS[statement])
    assert FUNCTION not in str(nodes)
    assert "recalled_slot" in str(nodes), "its last condition"


@every_statement
@pytest.mark.usefixtures("slots")
def test_given_back_slots_are_found_by_their_index(statement: str) -> None:
    """So a reservation looks only at the few that were given back at its site, however many slots there are."""
    parameters = PARAMETERS[statement]
    indexes = indexes_of_slots(plan_of("weir.ratelimit", statement, parameters))
    assert ("weir_slot_given_back", True) in indexes
    assert indexes <= {("weir_slot_given_back", True), ("weir_ratelimit_slot_pkey", True)}
    assert rows_read("weir.ratelimit", statement, parameters, "weir_ratelimit_slot") <= 2 * FEW


@pytest.mark.usefixtures("slots")
def test_a_reservation_keeps_that_plan() -> None:
    """It is prepared, and so planned without knowing its values (Prepared plan)."""
    nodes = generic_plan_of("weir.ratelimit", "reserve")
    assert FUNCTION not in str(nodes)
    assert indexes_of_slots(nodes) == {("weir_slot_given_back", True)}
