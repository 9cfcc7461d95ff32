"""A file that shows that this process' loop turns, for a supervisor that restarts processes without asking a server.

The file's time is the time of the last heartbeat, and its name is the name of the process. The process touches the file
whether or not PostgreSQL and the broker are there, because a restart of the process would not bring them back. A
process that ends in order removes its file. The file of a killed process grows old, until the next process of that
name touches it.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weir.conf import settings
from weir.logs.loggers import get_logger

log = get_logger(__name__)

EVERY_S: Final = 2.0


@dataclass(kw_only=True)
class LivenessFile:
    """The file of a process, in WEIR_LIVENESS_DIR; without that setting, methods do nothing. No method raises."""

    name: str
    _touched_at: float = float("-inf")  # of time.monotonic()
    _has_ended: bool = False
    _has_failed: bool = False

    def touch(self) -> None:
        """Record a heartbeat, at most once in two seconds."""
        now = time.monotonic()
        if self._has_ended or now < self._touched_at + EVERY_S or not settings.WEIR_LIVENESS_DIR:
            return
        self._touched_at = now
        try:
            self._path().parent.mkdir(parents=True, exist_ok=True)
            self._path().touch()
        except OSError as error:
            if not self._has_failed:  # one warning is enough
                log.warning("liveness_not_shown", error=str(error))
            self._has_failed = True

    def remove(self) -> None:
        """Remove the file, because this process ends in order."""
        self._has_ended = True
        if settings.WEIR_LIVENESS_DIR:
            try:
                self._path().unlink(missing_ok=True)
            except OSError as error:
                log.warning("liveness_not_shown", error=str(error))

    def _path(self) -> Path:
        return Path(settings.WEIR_LIVENESS_DIR) / self.name.replace("/", "_")
