"""Everything that is stored, in which tests look for what must not be there."""

from django.db import connection


def rows() -> str:
    """Return everything that is stored, as text."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND pg_relation_size(oid) > 0"
        )
        found = []
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT string_agg(stored::text, E\'\\n\') FROM "{table}" AS stored')
            found.append(str(cursor.fetchone()))
    return "\n".join(found)
