"""Tells the e-mails that were not sent before this release what they are about, and whom they are for."""

from django.db import migrations

FILL = """
    UPDATE mail_email
    SET recipient = orders_order.customer_email, context = jsonb_build_object('order_id', orders_order.id)
    FROM orders_order
    WHERE
        mail_email.kind = 'order.shipped' AND mail_email.state <> 'sent' AND mail_email.recipient = ''
        AND mail_email.key = orders_order.id::text
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial"), ("mail", "0007_any_kind_indexes")]

    operations = [migrations.RunSQL(FILL, migrations.RunSQL.noop)]
