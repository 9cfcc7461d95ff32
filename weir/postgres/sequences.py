"""Sequences that are behind the rows of their tables, as after logical replication, or after copying only the rows."""

from collections.abc import Collection
from typing import NamedTuple

from django.apps import apps
from django.db import connection
from django.db.models import AutoField
from psycopg import sql

MOST_NAMED = 5
_LOOK = sql.SQL("SELECT {}, {}, last_value + is_called::int AS next, (SELECT max({}) FROM {}) AS highest FROM {}")


class Behind(NamedTuple):
    """A sequence whose next number a row of its table may have already: an INSERT with that number would fail."""

    app: str
    sequence: str
    next: int
    highest: int  # id in the table


def sentence(found: Collection[Behind]) -> str:
    """Return what is wrong, and what to do about it; an empty string if no sequence is behind."""
    if not found:
        return ""
    named = [f"{one.sequence} ({one.next:,} where rows have {one.highest:,})" for one in found][:MOST_NAMED]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    apps_to_reset = " ".join(sorted({one.app for one in found}))
    return (
        f"Sequences would give ids that rows have already: {', '.join(named)}{more}. Logical replication leaves that. "
        f"With everything stopped, set them: `python manage.py sqlsequencereset {apps_to_reset} "
        "| python manage.py dbshell`."
    )


def behind() -> list[Behind]:
    """Return the sequences of models' ids that are behind, ordered by name. Only reads, through indexes."""
    columns = [
        (model._meta.app_label, model._meta.db_table, field.column)  # noqa: SLF001  documented
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.local_fields  # noqa: SLF001  as above
        if isinstance(field, AutoField) and field.primary_key
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT app, name, id, pg_get_serial_sequence(quote_ident(name), id)::regclass::text"
            " FROM unnest(%s::text[], %s::text[], %s::text[]) AS given (app, name, id)"
            " WHERE to_regclass(quote_ident(name)) IS NOT NULL",  # a model may lie in another database
            list(map(list, zip(*columns, strict=True))),
        )
        looks = [
            _LOOK.format(app, sequence, sql.Identifier(name), sql.Identifier(table), sql.SQL(sequence))
            for app, table, name, sequence in cursor.fetchall()
            if sequence
        ]
        if looks:
            every = sql.SQL(" UNION ALL ").join(looks)
            cursor.execute(sql.SQL("SELECT * FROM ({}) AS looks WHERE next <= highest ORDER BY 2").format(every))
        return [Behind(*row) for row in cursor.fetchall()]
