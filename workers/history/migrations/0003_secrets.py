"""A fetch whose request names a secret that its fetcher cannot use fails for reasons of our own."""

from django.db import migrations

# tests/integration/history/test_failure_classes.py has all texts that code writes.
FAILURE_REASON = """
    CREATE FUNCTION weir_history_failure_reason(error text) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
        WHEN error LIKE 'the secret %' OR error LIKE 'the file of the secret %' THEN 'internal'
        ELSE weir_history_failure_class(error)
    END
"""


class Migration(migrations.Migration):
    dependencies = [("weir_history", "0002_all_sites")]

    operations = [migrations.RunSQL(FAILURE_REASON, "DROP FUNCTION weir_history_failure_reason")]
