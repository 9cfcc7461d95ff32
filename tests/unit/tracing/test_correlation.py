"""Which texts may be a correlation id, and how long one holds."""

from contextlib import suppress

import structlog

from tests.cases import for_each
from weir.workers.tracing import correlation


@for_each("given", ["a", "7f0c-4.b_c~d", "Root=1-67891233-abc", "a:b/c+d", "x" * 64])
def test_what_other_systems_write_is_taken(given: str) -> None:
    """UUIDs, and what load balancers and gateways make."""
    assert correlation.safe(given) == given


@for_each(
    "given",
    ["", "x" * 65, "x" * 2**20, "a\nb", "a\n", "a\r\nX: y", "<script>", '"', "a b", "\x1b[31m", "ä", "a\0", None, 7],
)
def test_what_would_do_harm_is_no_id(given: object) -> None:
    """It would stand in rows, in log lines, on terminals and on pages."""
    assert correlation.safe(given) == ""


def test_an_id_holds_for_the_block() -> None:
    """Also none, and what held before comes back, whatever is raised."""
    with correlation.bound("outer"):
        with suppress(ZeroDivisionError), correlation.bound("inner"):
            assert correlation.current() == "inner"
            raise ZeroDivisionError
        assert correlation.current() == "outer"
        with correlation.bound(""):
            assert correlation.KEY not in structlog.contextvars.get_contextvars()
        assert correlation.current() == "outer"
    assert correlation.current() == ""


def test_what_others_bind_by_that_name_is_judged_too() -> None:
    """django-structlog names it so in its own pages."""
    with structlog.contextvars.bound_contextvars(correlation_id="a b"):
        assert correlation.current() == ""
