"""The loggers of Weir's modules. A project sees Weir's events in the same place as the events of its own modules.

If the project has configured structlog, as `project.logs` does, structlog handles the events. Otherwise each event is
a record of Python's logging, which LOGGING configures. The record's logger has the module's name, such as
`weir.workers.fetches.dispatch`. Weir itself configures no logging.
"""

import logging
from functools import partialmethod
from typing import Any, Final

import structlog

from weir.logs import masking

VALUES: Final = "weir"  # the attribute of a record that maps names to the event's values


def get_logger(name: str) -> Any:  # noqa: ANN401  the methods of structlog's loggers depend on its configuration
    """Return the logger of a module. Its calls are those of structlog: `log.info("site_paused", site=name)`."""
    return _Logger(name)


class _Logger:
    """Uses structlog's logger if structlog is configured when an event is logged, and writes records otherwise."""

    def __init__(self, name: str) -> None:
        self._structured = structlog.get_logger(name)
        self._records = _Records(name)

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401  as above
        return getattr(self._structured if structlog.is_configured() else self._records, method)


class _Records:
    """Writes events as records of Python's logging.

    The message contains the event and its values, which `masking` masks and cuts as in all of Weir's logs. Exceptions
    are passed on unchanged to the project's formatters, and to services that collect exceptions.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def _log(self, level: int, event: str, /, *, exc_info: Any = None, **values: object) -> None:  # noqa: ANN401  logging's
        if not self._logger.isEnabledFor(level):
            return
        shown = masking.mask(None, "", {**structlog.contextvars.get_contextvars(), **values})
        message = " ".join([event, *(f"{name}=%r" for name in shown)])
        extra = {VALUES: {"event": event, **shown}}
        # Without its arguments, the message is the same for all events of a kind. Services that collect errors group
        # them by this text.
        self._logger.log(level, message, *shown.values(), exc_info=exc_info, extra=extra, stacklevel=2)

    debug = partialmethod(_log, logging.DEBUG)
    info = partialmethod(_log, logging.INFO)
    warning = partialmethod(_log, logging.WARNING)
    error = partialmethod(_log, logging.ERROR)
    critical = partialmethod(_log, logging.CRITICAL)
    exception = partialmethod(_log, logging.ERROR, exc_info=True)
