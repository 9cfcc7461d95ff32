"""The app `timeline`, which records the history of the database that Weir has seen."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models.signals import post_migrate

from weir.postgres import statements, weir_apps


class TimelineConfig(weir_apps.WeirApp):
    """Owns the row that names the known history (gate.py)."""

    name = "weir.postgres.timeline"
    label = "weir_timeline"
    verbose_name = "Weir: timeline"

    def ready(self) -> None:
        """Keep Weir's tables in `default`, register the checks, and connect the statements to the gate.

        The row is written after `migrate`, and after `flush`, for example when one of Django's tests has emptied all
        tables.
        """
        from weir.postgres.timeline import checks, gate  # noqa: F401, PLC0415  importing registers checks; needs apps

        weir_apps.ask_first()
        statements.guard(statements.GateParameters(gate.known_generation, gate.clock, gate.read_clock))
        post_migrate.connect(begin, sender=self, dispatch_uid="weir.postgres.timeline")


def begin(*, using: str, **_signal: Any) -> None:
    """Write the row if Weir's table exists and is empty."""
    from weir.postgres.timeline import gate  # noqa: PLC0415  as above; so does the next line
    from weir.postgres.timeline.models import KnownTimeline  # noqa: PLC0415

    table = KnownTimeline._meta.db_table  # noqa: SLF001  documented
    has_table = using == DEFAULT_DB_ALIAS and table in connections[using].introspection.table_names()
    if has_table and not KnownTimeline.objects.exists():
        gate.begin()
