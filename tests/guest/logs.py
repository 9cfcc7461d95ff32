"""What the foreign project's LOGGING sees."""

import logging
from typing import ClassVar


class Kept(logging.Handler):
    """Keeps all records."""

    records: ClassVar[list[logging.LogRecord]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
