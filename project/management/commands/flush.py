from typing import Any

from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS

from weir.postgres.timeline import apps as timeline


class Command(flush.Command):
    """Django's `flush`, after which Weir knows the history of the empty database: otherwise it would grant nothing.

    A receiver of `post_migrate` does that as well, but Django's tests may inhibit the signal.
    """

    def handle(self, **options: Any) -> None:
        super().handle(**options)
        timeline.begin(using=options.get("database", DEFAULT_DB_ALIAS))
