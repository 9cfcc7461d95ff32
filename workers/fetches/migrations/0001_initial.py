import datetime
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("weir_ratelimit", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Fetch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "correlation_id",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the web request, or the task, that asked for it, as in log lines; empty: a command did",
                        max_length=64,
                    ),
                ),
                (
                    "traceparent",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the span in which it was asked for (W3C Trace Context), where spans are on",
                        max_length=55,
                    ),
                ),
                ("url", models.TextField()),
                (
                    "hop_url",
                    models.TextField(
                        blank=True, help_text="what is requested: url as it is sent, or where redirects led"
                    ),
                ),
                ("redirects", models.PositiveSmallIntegerField(db_default=0, default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("reserved", "Reserved"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("priority", models.SmallIntegerField(default=0, help_text="higher goes first")),
                ("not_before", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "due_since",
                    models.DateTimeField(
                        help_text="not_before as it was before the wait for robots.txt: the fetch's place in the queue",
                        null=True,
                    ),
                ),
                (
                    "attempts",
                    models.PositiveSmallIntegerField(
                        db_default=0, default=0, help_text="attempts that ended, and losses that count as one"
                    ),
                ),
                (
                    "losses",
                    models.IntegerField(db_default=0, default=0, help_text="how often it was lost with a fetcher"),
                ),
                (
                    "in_hand",
                    models.BooleanField(
                        db_default=False, default=False, help_text="a fetcher has its answer alone in hand"
                    ),
                ),
                ("max_attempts", models.PositiveSmallIntegerField(default=5)),
                ("slot_id", models.BigIntegerField(null=True)),
                (
                    "lease_until",
                    models.DateTimeField(help_text="when sweep takes it back, if no result has been stored", null=True),
                ),
                (
                    "claimed_by",
                    models.BigIntegerField(
                        help_text="the process that claimed it last; its row may be gone", null=True
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "started_at",
                    models.DateTimeField(help_text="when the request was written (the database's clock)", null=True),
                ),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "lateness_ms",
                    models.FloatField(help_text="from the slot's start to the writing of the request", null=True),
                ),
                (
                    "elapsed_ms",
                    models.FloatField(help_text="from the writing of the request to the end of the body", null=True),
                ),
                ("status_code", models.PositiveSmallIntegerField(null=True)),
                (
                    "headers",
                    models.JSONField(
                        blank=True,
                        db_default=models.Value([], models.JSONField()),
                        default=list,
                        help_text="[name, value] pairs, as they came",
                    ),
                ),
                ("etag", models.TextField(blank=True, db_default="", default="")),
                ("last_modified", models.TextField(blank=True, db_default="", default="")),
                ("error", models.TextField(blank=True, db_default="", default="")),
                (
                    "incomplete",
                    models.TextField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="why the stored body is not all of it, or not what its headers say; empty: it is whole",
                    ),
                ),
                (
                    "revalidate",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="ask only whether the last good result of this URL still holds",
                    ),
                ),
                (
                    "on_done",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the Celery task that is called with the id at the end",
                        max_length=200,
                    ),
                ),
                ("on_done_called_at", models.DateTimeField(null=True)),
                (
                    "dedupe_key",
                    models.UUIDField(help_text="of all fetches with the same key, one may be unfinished", null=True),
                ),
                (
                    "is_robots",
                    models.BooleanField(
                        db_default=False, default=False, help_text="a robots.txt that Weir itself asks for"
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        help_text="the site of the next hop",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="weir_ratelimit.site",
                    ),
                ),
                (
                    "unchanged_from",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        help_text="the earlier fetch whose body a 304 refers to; purge keeps it as long as this one",
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="weir_fetches.fetch",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "fetches",
            },
        ),
        migrations.CreateModel(
            name="FetchBody",
            fields=[
                (
                    "fetch",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="body",
                        serialize=False,
                        to="weir_fetches.fetch",
                    ),
                ),
                ("content", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="RobotsFile",
            fields=[
                (
                    "origin",
                    models.TextField(
                        help_text="scheme://host, with :port where not the default", primary_key=True, serialize=False
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("allowed", "Allowed"),
                            ("rules", "Rules"),
                            ("unreachable", "Unreachable"),
                            ("forbidden", "Forbidden"),
                        ],
                        max_length=11,
                    ),
                ),
                ("rules", models.TextField(blank=True, help_text="the text, at most 512 KiB of it")),
                (
                    "crawl_delay",
                    models.DurationField(help_text="the Crawl-delay that holds for Weir, at most a day", null=True),
                ),
                ("error", models.TextField(blank=True, help_text="why it is unreachable or forbidden")),
                ("fetched_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("refresh_at", models.DateTimeField(help_text="when it is asked for again, while it still counts")),
                ("expires_at", models.DateTimeField(help_text="when it no longer counts")),
                (
                    "site",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        help_text="the origin's site",
                        on_delete=django.db.models.deletion.PROTECT,
                        to="weir_ratelimit.site",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                models.F("site"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("not_before"),
                models.F("id"),
                condition=models.Q(("state", "queued")),
                name="weir_fetch_queue",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("due_since__isnull", False), ("state", "queued")),
                fields=["site"],
                name="weir_fetch_waits_for_robots",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("state__in", ["reserved", "running"])),
                fields=["site", "lease_until"],
                name="weir_fetch_held",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("lease_until__isnull", False)), fields=["slot_id"], name="weir_fetch_of_slot"
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                django.db.models.functions.text.MD5("hop_url"),
                models.OrderBy(models.F("finished_at"), descending=True),
                condition=models.Q(
                    ("state", "done"),
                    ("status_code", 200),
                    models.Q(
                        models.Q(("etag", ""), _negated=True),
                        models.Q(("last_modified", ""), _negated=True),
                        _connector="OR",
                    ),
                ),
                name="weir_fetch_validators",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("unchanged_from__isnull", False)),
                fields=["unchanged_from", "finished_at"],
                name="weir_fetch_unchanged_from",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", False)), fields=["finished_at"], name="weir_fetch_finished"
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(
                    ("finished_at__isnull", False),
                    ("on_done_called_at__isnull", True),
                    models.Q(("on_done", ""), _negated=True),
                ),
                fields=["finished_at"],
                name="weir_fetch_on_done_due",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", False)),
                fields=["site", "state", "finished_at", "id"],
                name="weir_fetch_ended_at_site",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("state__in", ["failed", "cancelled"])),
                fields=["state", "finished_at", "id"],
                name="weir_fetch_not_done",
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["created_at", "id"], name="weir_fetch_queued"
            ),
        ),
        migrations.AddIndex(
            model_name="fetch",
            index=models.Index(
                django.db.models.functions.comparison.Collate(django.db.models.functions.text.Left("url", 100), "C"),
                models.F("id"),
                condition=models.Q(("state__in", ["reserved", "running"]), _negated=True),
                name="weir_fetch_by_url",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["queued", "reserved", "running", "done", "failed", "cancelled"])),
                name="weir_fetch_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["done", "failed", "cancelled"]), ("finished_at__isnull", True), _connector="XOR"
                ),
                name="weir_fetch_final_has_finished_at",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["reserved", "running"]), _negated=True),
                    models.Q(("lease_until__isnull", False), ("slot_id__isnull", False)),
                    _connector="OR",
                ),
                name="weir_fetch_held_has_slot_and_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(("site__isnull", False), ("state", "failed"), _connector="OR"),
                name="weir_fetch_without_site_is_failed",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "done"), _negated=True), ("status_code__isnull", False), _connector="OR"
                ),
                name="weir_fetch_done_has_status",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "failed"), _negated=True),
                    models.Q(("error", ""), _negated=True),
                    _connector="OR",
                ),
                name="weir_fetch_failed_says_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_attempts__gte", 1)), name="weir_fetch_max_attempts_positive"
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.UniqueConstraint(
                condition=models.Q(("dedupe_key__isnull", False), ("state__in", ["queued", "reserved", "running"])),
                fields=("dedupe_key",),
                name="weir_fetch_unfinished_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_robots", True), ("state__in", ["queued", "reserved", "running"])),
                fields=("url",),
                name="weir_fetch_robots_once",
            ),
        ),
        migrations.AddIndex(
            model_name="robotsfile",
            index=models.Index(fields=["site", "expires_at"], name="weir_robots_of_site"),
        ),
        migrations.AddIndex(
            model_name="robotsfile",
            index=models.Index(fields=["expires_at"], name="weir_robots_expired"),
        ),
        migrations.AddConstraint(
            model_name="robotsfile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["allowed", "rules", "unreachable", "forbidden"])),
                name="weir_robots_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="robotsfile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["unreachable", "forbidden"]), ("error", ""), _connector="XOR"),
                name="weir_robots_unreachable_says_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="robotsfile",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("crawl_delay__isnull", True), ("crawl_delay__gt", datetime.timedelta(0)), _connector="OR"
                ),
                name="weir_robots_delay_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="robotsfile",
            constraint=models.CheckConstraint(
                condition=models.Q(("refresh_at__lte", models.F("expires_at"))), name="weir_robots_refreshed_in_time"
            ),
        ),
    ]
