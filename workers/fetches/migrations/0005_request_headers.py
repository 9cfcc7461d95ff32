"""The headers of the request of one fetch, and whether they may still be sent."""

from django.db import migrations, models


# The same for the same headers of a site and of a fetch, as far as they are sent; NULL for none.
HEADERS_KEY = """
    CREATE FUNCTION weir_fetches_headers_key(
        site_headers jsonb, request_headers jsonb, has_left_origin boolean
    ) RETURNS bigint LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN site_headers IS NOT NULL OR request_headers IS NOT NULL
        THEN hashtextextended(jsonb_build_array(site_headers, request_headers, has_left_origin)::text, 0) END
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0004_weir_fetch_called_again")]

    operations = [
        migrations.AddField(
            "fetch",
            "request_headers",
            models.JSONField(null=True, help_text="by name; placeholders for secrets"),
        ),
        migrations.AddField(
            "fetch",
            "has_left_origin",
            models.BooleanField(default=False, db_default=False, help_text="by a redirect"),
        ),
        migrations.AddField(
            "fetch",
            "headers_key",
            models.BigIntegerField(null=True, help_text="of those with which it was last requested"),
        ),
        migrations.RunSQL(HEADERS_KEY, "DROP FUNCTION weir_fetches_headers_key"),
    ]
