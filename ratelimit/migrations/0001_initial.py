import datetime
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.text
import weir.postgres.generated
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="StartTotal",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "out_of_time",
                    models.BigIntegerField(db_default=0, help_text="starts that were written out of their time"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DeletedSite",
            fields=[
                (
                    "site_id",
                    models.BigIntegerField(
                        help_text="the id that it had; no other site ever gets it", primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=300)),
                ("last_start", models.DateTimeField(help_text="no request to its hosts was started later than this")),
                ("deleted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "indexes": [models.Index(fields=["name"], name="weir_deletedsite_by_name")],
            },
        ),
        migrations.CreateModel(
            name="Site",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(help_text="host, with :port where not the default", max_length=300, unique=True),
                ),
                ("interval", models.DurationField(help_text="shortest time between two starts")),
                (
                    "written_rate",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the rate as it was written; it is shown so where it stands for the interval",
                        max_length=50,
                    ),
                ),
                (
                    "burst",
                    models.PositiveIntegerField(
                        default=1, help_text="starts that may follow each other at once (GCRA)"
                    ),
                ),
                (
                    "max_concurrency",
                    models.PositiveIntegerField(blank=True, help_text="fetches in flight at once", null=True),
                ),
                (
                    "grace",
                    models.DurationField(blank=True, help_text="how late a start may be; empty = default", null=True),
                ),
                (
                    "next_start",
                    models.DateTimeField(
                        db_default=datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc),
                        help_text="the site's clock: the earliest next start (with a burst: GCRA's theoretical arrival time)",
                    ),
                ),
                (
                    "crawl_delay",
                    models.DurationField(
                        blank=True, help_text="from robots.txt; raises the interval, never lowers it", null=True
                    ),
                ),
                ("obeys_robots", models.BooleanField(blank=True, help_text="empty = WEIR_OBEY_ROBOTS", null=True)),
                (
                    "refusing",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(),
                        blank=True,
                        help_text="statuses by which it refuses more requests; empty = 429 and 503, and with a Retry-After some others",
                        null=True,
                        size=None,
                    ),
                ),
                ("paused_until", models.DateTimeField(blank=True, null=True)),
                ("backed_off_until", models.DateTimeField(blank=True, null=True)),
                ("backoff_level", models.PositiveSmallIntegerField(db_default=0, help_text="back-offs in a row")),
                (
                    "backed_off_slot",
                    models.BigIntegerField(
                        db_default=0, help_text="refusals of starts in slots up to this one belong to the last back-off"
                    ),
                ),
                (
                    "backoff_error",
                    models.CharField(
                        blank=True,
                        db_default="",
                        help_text="why it is unreachable; empty where it refused requests",
                        max_length=300,
                    ),
                ),
                (
                    "backoff_reason",
                    models.CharField(
                        blank=True,
                        db_default="",
                        help_text="what it answered that nothing starts before backed_off_until; empty where it cannot be reached",
                        max_length=200,
                    ),
                ),
                (
                    "refused_until",
                    models.DateTimeField(
                        blank=True,
                        help_text="where backed_off_until is due to a quota that is used up: the end of what it refused",
                        null=True,
                    ),
                ),
                ("recalled_slot", models.BigIntegerField(db_default=0)),
                ("recalled_at", models.DateTimeField(null=True)),
                (
                    "starts_out_of_time",
                    models.BigIntegerField(db_default=0, help_text="starts that were written out of their time"),
                ),
                (
                    "out_of_time_at",
                    models.DateTimeField(help_text="when the last of these was written, at the latest", null=True),
                ),
                ("has_backlog", models.BooleanField(default=False, help_text="dispatch looks at this site")),
                (
                    "due_at",
                    models.DateTimeField(
                        help_text="while has_backlog is false: when the first queued fetch becomes due", null=True
                    ),
                ),
                ("covers_subdomains", models.BooleanField(default=False)),
                (
                    "split_until",
                    models.DateTimeField(
                        help_text="hosts that it covered have other sites now: they were promised no start here after this",
                        null=True,
                    ),
                ),
                (
                    "has_strays",
                    models.BooleanField(
                        db_default=False, help_text="fetches of such hosts may be queued here: sweep has them follow"
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "is_kept",
                    models.BooleanField(db_default=False, help_text="a person has set or paused it: purge leaves it"),
                ),
                (
                    "effective_interval",
                    weir.postgres.generated.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.comparison.Greatest(
                            models.F("interval"), models.F("crawl_delay")
                        ),
                        output_field=models.DurationField(),
                    ),
                ),
                (
                    "effective_grace",
                    weir.postgres.generated.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.comparison.Coalesce(
                            models.F("grace"),
                            django.db.models.functions.comparison.Least(
                                django.db.models.functions.comparison.Greatest(
                                    models.ExpressionWrapper(
                                        django.db.models.expressions.CombinedExpression(
                                            django.db.models.functions.comparison.Greatest(
                                                models.F("interval"), models.F("crawl_delay")
                                            ),
                                            "*",
                                            models.Value(0.025),
                                        ),
                                        output_field=models.DurationField(),
                                    ),
                                    models.Value(datetime.timedelta(microseconds=25000)),
                                ),
                                models.Value(datetime.timedelta(microseconds=250000)),
                            ),
                        ),
                        output_field=models.DurationField(),
                    ),
                ),
                (
                    "spacing",
                    weir.postgres.generated.GeneratedField(
                        db_persist=True,
                        expression=models.ExpressionWrapper(
                            django.db.models.expressions.CombinedExpression(
                                django.db.models.functions.comparison.Greatest(
                                    models.F("interval"), models.F("crawl_delay")
                                ),
                                "*",
                                models.Value(1.01),
                            ),
                            output_field=models.DurationField(),
                        ),
                        output_field=models.DurationField(),
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("has_backlog", True)), fields=["id"], name="weir_site_with_backlog"
                    ),
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="weir_site_due"
                    ),
                    models.Index(
                        condition=models.Q(("covers_subdomains", True)), fields=["name"], name="weir_site_covering"
                    ),
                    models.Index(condition=models.Q(("has_strays", True)), fields=["id"], name="weir_site_with_strays"),
                    models.Index(
                        condition=models.Q(("recalled_at__isnull", False)),
                        fields=["recalled_at"],
                        name="weir_site_recalled",
                    ),
                    models.Index(
                        django.db.models.functions.comparison.Collate(
                            django.db.models.functions.text.Reverse("name"), "C"
                        ),
                        name="weir_site_by_suffix",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("paused_until__isnull", False), ("backed_off_until__isnull", False), _connector="OR"
                        ),
                        fields=["name"],
                        name="weir_site_held",
                        opclasses=["varchar_pattern_ops"],
                    ),
                    models.Index(
                        models.OrderBy(models.F("backoff_level"), descending=True),
                        django.db.models.functions.comparison.Collate("name", "C"),
                        condition=models.Q(("backoff_level__gt", 0)),
                        name="weir_site_refusals",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("interval__gt", datetime.timedelta(0))), name="weir_site_interval_positive"
                    ),
                    models.CheckConstraint(condition=models.Q(("burst__gte", 1)), name="weir_site_burst_positive"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("grace__isnull", True),
                            ("grace__gte", datetime.timedelta(microseconds=15000)),
                            _connector="OR",
                        ),
                        name="weir_site_grace_not_too_short",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_concurrency__isnull", True), ("max_concurrency__gte", 1), _connector="OR"
                        ),
                        name="weir_site_concurrency_positive",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("refusing__isnull", True),
                            models.Q(
                                models.Q(("refusing__contains", [429, 503]), ("refusing__len__lte", 20)),
                                models.Func(
                                    models.F("refusing"),
                                    output_field=models.BooleanField(),
                                    template="(400 <= ALL (%(expressions)s))",
                                ),
                                models.Func(
                                    models.F("refusing"),
                                    output_field=models.BooleanField(),
                                    template="(999 >= ALL (%(expressions)s))",
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="weir_site_refusing_usable",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("has_backlog", False), ("due_at__isnull", True), _connector="OR"),
                        name="weir_site_with_backlog_has_no_due_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Slot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("start_time", models.DateTimeField()),
                ("use_until", models.DateTimeField(help_text="the end of its run: no start later than this")),
                (
                    "interval",
                    models.DurationField(
                        help_text="the site's effective interval when the slot was reserved", null=True
                    ),
                ),
                (
                    "run_size",
                    models.PositiveIntegerField(default=1, help_text="slots reserved together, for one holder"),
                ),
                (
                    "at_once",
                    models.PositiveIntegerField(
                        help_text="fetches of its run in flight at once; empty = any", null=True
                    ),
                ),
                ("reserved_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "claimed_at",
                    models.DateTimeField(
                        help_text="in the first slot of a run: when a fetcher claimed the run", null=True
                    ),
                ),
                ("finished_at", models.DateTimeField(help_text="when it was noted as used", null=True)),
                ("released_at", models.DateTimeField(help_text="when it was given back unused", null=True)),
                (
                    "passed_on_at",
                    models.DateTimeField(help_text="when another fetch got it, as its own was cancelled", null=True),
                ),
                (
                    "site",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="weir_ratelimit.site",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("released_at__isnull", False), ("run_size", 1)),
                        fields=["site", "start_time"],
                        name="weir_slot_given_back",
                    ),
                    models.Index(
                        condition=models.Q(("passed_on_at__isnull", False)),
                        fields=["passed_on_at"],
                        name="weir_slot_passed_on",
                    ),
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True, fields=["start_time"], name="weir_slot_by_start"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("finished_at__isnull", True), ("released_at__isnull", True), _connector="OR"
                        ),
                        name="weir_slot_finished_or_released",
                    )
                ],
            },
        ),
        # Room for HOT updates: each reservation changes its site's clock.
        migrations.RunSQL("ALTER TABLE weir_ratelimit_site SET (fillfactor = 50)", migrations.RunSQL.noop),
        # Whether the next reservation may take a given-back slot. It is a function, not a view, because statements pass
        # the values that they have read under the lock of the site's row. PostgreSQL inlines it, so that the index
        # weir_slot_given_back is used (tests/integration/ratelimit/test_plans.py).
        migrations.RunSQL(
            """
            CREATE FUNCTION weir_ratelimit_may_be_taken(
                slot weir_ratelimit_slot, soonest timestamptz, first_start timestamptz,
                shortest_interval interval, grace interval, recalled_slot bigint
            ) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN
                slot.released_at IS NOT NULL AND slot.run_size = 1
                AND slot.start_time > soonest AND slot.start_time <= first_start
                AND slot.use_until - slot.start_time >= grace AND slot."interval" >= shortest_interval
                AND slot.id > recalled_slot
            """,
            "DROP FUNCTION weir_ratelimit_may_be_taken",
        ),
        # What became of a slot: docs/glossary.md, "Fate". A function, as the history counts by it and the timeline shows
        # it, and the site's row, or the lack of one, comes from another table. PostgreSQL inlines it.
        # 500 ms: weir.ratelimit.pacing.CONFIRMED_FOR_S. 10 ms: weir.ratelimit.pacing.HAND_OVER_MARGIN_S.
        migrations.RunSQL(
            """
            CREATE FUNCTION weir_ratelimit_slot_fate(
                slot weir_ratelimit_slot, recalled_slot bigint, recalled_at timestamptz, reported_by timestamptz, now timestamptz
            ) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
                WHEN slot.finished_at IS NOT NULL THEN 'used'
                WHEN slot.id <= recalled_slot AND slot.use_until > recalled_at AND CASE
                    WHEN slot.released_at IS NULL THEN slot.start_time - recalled_at > interval '500 ms'
                    ELSE slot.released_at >= recalled_at
                END THEN 'void'
                WHEN slot.use_until - slot.released_at >= interval '10 ms' THEN 'given back'
                WHEN slot.released_at IS NOT NULL THEN 'missed'
                WHEN now <= reported_by THEN 'reserved'
                WHEN slot.passed_on_at IS NOT NULL THEN 'given back'
                ELSE 'unreported'
            END
            """,
            "DROP FUNCTION weir_ratelimit_slot_fate",
        ),
    ]
