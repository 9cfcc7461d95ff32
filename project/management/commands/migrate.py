import time
from typing import Any

from django.core.management.commands import migrate
from django.db import connections

LOCK = 0x4D696772  # "Migr" in ASCII: the advisory lock of the process that migrates
ASK_EVERY_S = 0.5


class Command(migrate.Command):
    """Django's `migrate`, one at a time: a second one waits until the first has ended, and finds nothing left to do."""

    def handle(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        lock = connections[options["database"]].copy()  # a session of its own: migrations begin and end transactions
        try:
            with lock.cursor() as cursor:
                # Asked again and again: a CREATE INDEX CONCURRENTLY of the other one waits for statements that wait.
                cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
                while cursor.fetchone() == (False,):
                    time.sleep(ASK_EVERY_S)
                    cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
            return super().handle(*args, **options)
        finally:
            lock.close()
