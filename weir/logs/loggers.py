"""The loggers of Weir's modules. A project sees their events as it sees those of its own modules.

If the project has configured structlog, events follow that configuration: `project.logs` is one. Otherwise each event
is a record for LOGGING, of the logger with the module's name, such as `weir.workers.fetches.dispatch`. Weir configures
nothing.
"""

import logging
from functools import partialmethod
from typing import Any, Final

import structlog

from weir.logs import masking

VALUES: Final = "weir"  # the attribute of a record that holds the event's values by their names


def get_logger(name: str) -> Any:  # noqa: ANN401  as structlog's, whose loggers have what is configured
    """Return the logger of a module, to be called as structlog's: `log.info("site_paused", site=name)`."""
    return _Logger(name)


class _Logger:
    """Uses structlog's logger if structlog is configured by the time of an event, and writes records otherwise."""

    def __init__(self, name: str) -> None:
        self._structured = structlog.get_logger(name)
        self._records = _Records(name)

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401  as above
        return getattr(self._structured if structlog.is_configured() else self._records, method)


class _Records:
    """Writes events as records: the message has the event and its values, masked and cut as everywhere in Weir's logs.

    Exceptions are passed on unchanged, for the project's formatters, and for services that collect them.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def _log(self, level: int, event: str, /, *, exc_info: Any = None, **values: object) -> None:  # noqa: ANN401  logging's
        if not self._logger.isEnabledFor(level):
            return
        shown = masking.mask(None, "", {**structlog.contextvars.get_contextvars(), **values})
        message = " ".join([event, *(f"{name}=%r" for name in shown)])
        extra = {VALUES: {"event": event, **shown}}
        # The message, without its arguments, is the same for all events of a kind: services that collect errors group
        # them by it.
        self._logger.log(level, message, *shown.values(), exc_info=exc_info, extra=extra, stacklevel=2)

    debug = partialmethod(_log, logging.DEBUG)
    info = partialmethod(_log, logging.INFO)
    warning = partialmethod(_log, logging.WARNING)
    error = partialmethod(_log, logging.ERROR)
    critical = partialmethod(_log, logging.CRITICAL)
    exception = partialmethod(_log, logging.ERROR, exc_info=True)
