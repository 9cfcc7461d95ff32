"""The statements of the benchmark of a large outbox are those that Weir executes, with all of their parameters."""

import pytest

from benchmarks import database
from benchmarks.once import large, plans

EMAILS = 5_000  # fewer have none that is due


@pytest.mark.django_db
def test_each_statement_of_a_large_outbox_can_be_executed() -> None:
    """Else an hour's benchmark ends in the middle."""
    large.fill(EMAILS)
    titles = []
    for statement in plans.statements():
        plan = database.explain(statement.text, statement.parameters, statement.before)
        assert "Execution Time" in plan, statement.title
        titles.append(statement.title)
    assert {"find", "does_older_wait", "claim", "begin", "record", "purge_renderings", "forget"} <= {*titles}
