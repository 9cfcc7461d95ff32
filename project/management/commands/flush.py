from typing import Any

from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS

from weir.postgres.timeline import apps as timeline


class Command(flush.Command):
    """Django's `flush`, after which Weir knows the history of what is empty: it would grant nothing otherwise.

    `post_migrate` has that done as well, but Django's tests may inhibit it.
    """

    def handle(self, **options: Any) -> None:
        super().handle(**options)
        timeline.begin(using=options.get("database", DEFAULT_DB_ALIAS))
