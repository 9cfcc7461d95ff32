"""What Weir logs in a project that has not configured structlog: records, which its LOGGING sees."""

import io
import logging
from contextlib import redirect_stdout

import structlog
from django.test import SimpleTestCase

from tests.guest.logs import Kept
from weir.logs.loggers import get_logger
from weir.workers.tracing import correlation

log = get_logger("weir.workers.fetches.dispatch")


class Records(SimpleTestCase):
    """Each event is an ordinary record."""

    def setUp(self) -> None:
        Kept.records.clear()

    def test_an_event_is_a_record_with_a_readable_message(self) -> None:
        with redirect_stdout(io.StringIO()) as printed, correlation.bound("order-7"):
            log.warning("site_paused", site="a.example", url="https://a.example/secret?token=1")
        [record] = Kept.records
        text = "site_paused correlation_id='order-7' site='a.example' url='https://a.example/***'"
        assert (record.name, record.levelname) == ("weir.workers.fetches.dispatch", "WARNING")
        assert record.getMessage() == text
        assert record.msg == "site_paused correlation_id=%r site=%r url=%r", "the same for all of a kind"
        assert vars(record)["weir"]["site"] == "a.example"
        assert record.pathname == __file__, "as that of the project's own modules"
        assert printed.getvalue() == ""

    def test_an_exception_goes_along(self) -> None:
        try:
            int("none")
        except ValueError:
            log.exception("site_not_paused", name="a name that a record has as well")
        [record] = Kept.records
        assert (record.levelname, record.exc_info and record.exc_info[0]) == ("ERROR", ValueError)
        assert record.pathname == __file__

    def test_the_projects_levels_hold(self) -> None:
        log.debug("not_wanted")
        logging.getLogger("weir.workers").setLevel("ERROR")
        try:
            log.warning("not_wanted_either")
        finally:
            logging.getLogger("weir.workers").setLevel("NOTSET")
        assert Kept.records == []

    def test_each_module_of_weirs_has_such_a_logger(self) -> None:
        """And none configures structlog, or the standard library's logging."""
        assert not structlog.is_configured()
        kept = [handler for handler in logging.getLogger().handlers if isinstance(handler, Kept)]
        assert len(kept) == 1
        assert logging.getLogger("weir").handlers == []
