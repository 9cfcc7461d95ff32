from typing import Any

from django.core.management.commands import migrate
from django.db import connections

LOCK = 0x4D696772  # "Migr" in ASCII: the advisory lock of the process that migrates


class Command(migrate.Command):
    """Django's `migrate`, one at a time: a second one waits until the first has ended, and finds nothing left to do."""

    def handle(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        lock = connections[options["database"]].copy()  # a session of its own: migrations begin and end transactions
        try:
            with lock.cursor() as cursor:
                cursor.execute("SET statement_timeout = 0")  # the other one may take long
                cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            return super().handle(*args, **options)
        finally:
            lock.close()
