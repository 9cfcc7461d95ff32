import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Minute",
            fields=[
                ("fetches_done", models.IntegerField(default=0)),
                ("fetches_failed", models.IntegerField(default=0)),
                ("fetches_cancelled", models.IntegerField(default=0)),
                (
                    "refused",
                    models.IntegerField(default=0, help_text="of those that failed: their last answer was a refusal"),
                ),
                ("slots_used", models.IntegerField(default=0)),
                ("slots_given_back", models.IntegerField(default=0)),
                ("slots_missed", models.IntegerField(default=0)),
                ("slots_void", models.IntegerField(default=0)),
                ("slots_unreported", models.IntegerField(default=0)),
                (
                    "slots_allowed",
                    models.BigIntegerField(
                        default=0, help_text="starts that the rates of the sites which had a slot allow in a minute"
                    ),
                ),
                (
                    "lateness_p50_ms",
                    models.FloatField(
                        help_text="from the slot's start to the request, of fetches that ended; empty where none was sent",
                        null=True,
                    ),
                ),
                (
                    "lateness_p99_ms",
                    models.FloatField(help_text="as above: one fetch in a hundred was later", null=True),
                ),
                ("minute", models.DateTimeField(help_text="when it began", primary_key=True, serialize=False)),
                ("emails_sent", models.IntegerField(default=0)),
                ("emails_failed", models.IntegerField(default=0)),
                ("emails_unknown", models.IntegerField(default=0)),
                (
                    "unread_flushed",
                    models.IntegerField(default=0, help_text="users whose stored number a flush changed"),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="SiteMinute",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("fetches_done", models.IntegerField(default=0)),
                ("fetches_failed", models.IntegerField(default=0)),
                ("fetches_cancelled", models.IntegerField(default=0)),
                (
                    "refused",
                    models.IntegerField(default=0, help_text="of those that failed: their last answer was a refusal"),
                ),
                ("slots_used", models.IntegerField(default=0)),
                ("slots_given_back", models.IntegerField(default=0)),
                ("slots_missed", models.IntegerField(default=0)),
                ("slots_void", models.IntegerField(default=0)),
                ("slots_unreported", models.IntegerField(default=0)),
                (
                    "slots_allowed",
                    models.BigIntegerField(
                        default=0, help_text="starts that the rates of the sites which had a slot allow in a minute"
                    ),
                ),
                (
                    "lateness_p50_ms",
                    models.FloatField(
                        help_text="from the slot's start to the request, of fetches that ended; empty where none was sent",
                        null=True,
                    ),
                ),
                (
                    "lateness_p99_ms",
                    models.FloatField(help_text="as above: one fetch in a hundred was later", null=True),
                ),
                ("minute", models.DateTimeField(help_text="when it began")),
                ("site_id", models.BigIntegerField(help_text="the site; it may have been deleted since")),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True, fields=["minute"], name="weir_siteminute_by_minute"
                    )
                ],
                "constraints": [models.UniqueConstraint(fields=("site_id", "minute"), name="weir_siteminute_unique")],
            },
        ),
        migrations.CreateModel(
            name="Total",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("series", models.CharField(help_text="what is counted, such as fetches_ended", max_length=40)),
                (
                    "label",
                    models.CharField(
                        blank=True, help_text="which of it, such as done; empty where there is one", max_length=40
                    ),
                ),
                (
                    "value",
                    models.BigIntegerField(help_text="how many, or how much, of all minutes that were rolled up"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("series", "label"), name="weir_total_series_label_unique"),
                    models.CheckConstraint(condition=models.Q(("value__gte", 0)), name="weir_total_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Watermark",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "rolled_until",
                    models.DateTimeField(help_text="the minutes before this are rolled up; the next one begins here"),
                ),
                (
                    "epoch",
                    models.BigIntegerField(help_text="the last epoch of unread numbers whose users are in the totals"),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="weir_watermark_is_one_row")
                ],
            },
        ),
        # Why a fetch failed, as one of a few classes, from its `error`. What a stranger chose (the target of a redirect, a
        # host's name) stands behind words of ours, or in texts that are looked at last.
        # tests/integration/history/test_failure_classes.py has all texts that code writes.
        migrations.RunSQL(
            """
            CREATE FUNCTION weir_history_failure_class(error text) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
                WHEN error LIKE 'the site answered 4%' OR error LIKE 'the site answered 503%'
                    OR error LIKE 'the site answered ___, which refuses %' THEN 'refused'
                WHEN error LIKE 'the site answered %' THEN 'server error'
                WHEN error LIKE 'redirected to %' OR error LIKE 'more than % redirects, %' THEN 'redirect'
                WHEN error LIKE '%; WEIR\\_FETCH\\_ALLOW\\_%' THEN 'forbidden'
                WHEN error LIKE 'robots.txt of %' THEN 'robots.txt'
                WHEN error LIKE 'no complete answer within %' OR error LIKE 'no connection within %'
                    OR error LIKE 'the connection took %' THEN 'timeout'
                WHEN error LIKE 'gaierror: %' OR error LIKE 'LookupTimedOut: %' THEN 'dns'
                WHEN error LIKE 'the site''s certificate %' OR error LIKE 'TLS failed: %' THEN 'tls'
                WHEN error LIKE 'connection refused by %' THEN 'connection refused'
                WHEN error LIKE '% larger than % bytes%' OR error LIKE 'the answer has more than %' THEN 'too large'
                WHEN error LIKE 'not an answer in HTTP: %' OR error LIKE 'the body%' OR error LIKE 'the compressed body %'
                    OR error LIKE 'the site answers %' THEN 'bad answer'
                WHEN error LIKE 'unexpected: %' OR error LIKE 'the answer could not be judged: %'
                    OR error LIKE 'the database refused the result: %' THEN 'internal'
                WHEN error LIKE 'the site close%' OR error LIKE 'the connection %' OR error LIKE 'not connected to %'
                    OR error LIKE '%Error: %' THEN 'connection'
                WHEN error LIKE 'its fetcher died%' THEN 'fetcher lost'
                WHEN error LIKE 'the URL %' OR error LIKE 'not a URL: %' OR error LIKE 'the scheme %'
                    OR error LIKE 'the port must %' OR error LIKE 'the host has %' OR error LIKE '''%' OR error LIKE '"%'
                    THEN 'invalid URL'
                ELSE 'other'
            END
            """,
            "DROP FUNCTION weir_history_failure_class",
        ),
    ]
