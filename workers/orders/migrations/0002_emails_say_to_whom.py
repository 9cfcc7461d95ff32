"""Tells the e-mails of the last release what they are about, and whom they are for."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

BATCH = 1_000
STATEMENT = """
    UPDATE mail_email
    SET recipient = orders_order.customer_email, context = jsonb_build_object('order_id', orders_order.id)
    FROM (
        SELECT id, key FROM mail_email
        WHERE kind = 'order.shipped' AND recipient = '' AND context = '{}' AND id > %s
        ORDER BY id LIMIT %s FOR NO KEY UPDATE
    ) AS old
    LEFT JOIN orders_order ON orders_order.id = old.key::bigint
    WHERE mail_email.id = old.id AND orders_order.id IS NOT NULL
    RETURNING mail_email.id
"""


def fill(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """In short transactions: mailers go on meanwhile."""
    last = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(STATEMENT, [last, BATCH])
            ids = [row[0] for row in cursor.fetchall()]
            if not ids:
                return
            last = max(ids)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("orders", "0001_initial"), ("mail", "0007_any_kind_indexes")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
