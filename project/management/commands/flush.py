from typing import Any

from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS

from weir.postgres.timeline import apps as timeline


class Command(flush.Command):
    """Django's `flush`, which then records the history of the empty database: without a record, Weir grants no slots.

    A receiver of `post_migrate` also records the history, but Django's tests may inhibit the signal.
    """

    def handle(self, **options: Any) -> None:
        super().handle(**options)
        timeline.begin(using=options.get("database", DEFAULT_DB_ALIAS))
