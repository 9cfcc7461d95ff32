import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Email",
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
                (
                    "kind",
                    models.CharField(
                        help_text="the kind of e-mail, such as order.shipped: see `kinds`", max_length=100
                    ),
                ),
                (
                    "key",
                    models.CharField(help_text="what it is about; one e-mail of a kind for each key", max_length=100),
                ),
                (
                    "recipient",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the address; empty when it was forgotten",
                        max_length=320,
                    ),
                ),
                (
                    "recipient_name",
                    models.CharField(
                        blank=True, db_default="", default="", help_text="as in To: Name <address>", max_length=200
                    ),
                ),
                (
                    "language",
                    models.CharField(
                        blank=True, db_default="", default="", help_text="that it is rendered in", max_length=20
                    ),
                ),
                ("context", models.JSONField(db_default={}, default=dict, help_text="the arguments of its kind")),
                ("priority", models.SmallIntegerField(db_default=0, default=0, help_text="higher ones go first")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("claimed", "Claimed"),
                            ("sending", "Sending"),
                            ("sent", "Sent"),
                            ("failed", "Failed"),
                            ("unknown", "Unknown"),
                            ("bounced", "Bounced"),
                            ("cancelled", "Cancelled"),
                            ("suppressed", "Suppressed"),
                            ("expired", "Expired"),
                        ],
                        default="pending",
                        max_length=10,
                    ),
                ),
                ("message_id", models.CharField(help_text="the header Message-ID, of every attempt", max_length=500)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "attempts",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="those that the mail server answered or broke off"
                    ),
                ),
                ("next_attempt_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "expires_at",
                    models.DateTimeField(
                        help_text="no attempt begins from then on; empty: it does not expire", null=True
                    ),
                ),
                ("claim_token", models.UUIDField(null=True)),
                (
                    "claimed_by",
                    models.CharField(blank=True, help_text="host and process id of the last worker", max_length=300),
                ),
                (
                    "claimed_until",
                    models.DateTimeField(help_text="when it is taken back from a worker that has not begun", null=True),
                ),
                (
                    "sending_since",
                    models.DateTimeField(help_text="when transmission began (the database's clock)", null=True),
                ),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "ended_at",
                    models.DateTimeField(
                        help_text="when it came into the state in which it ended; empty in rows from before this column",
                        null=True,
                    ),
                ),
                (
                    "phase",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("not begun", "Not Begun"),
                            ("before dot", "Before Dot"),
                            ("after dot", "After Dot"),
                            ("forgotten", "Forgotten"),
                            ("begun", "Begun"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "last_reply",
                    models.TextField(blank=True, help_text="what the relay said last, or what happened instead"),
                ),
                (
                    "renderings",
                    models.PositiveSmallIntegerField(db_default=0, default=0, help_text="how often it was rendered"),
                ),
                (
                    "subject",
                    models.CharField(
                        blank=True, db_default="", default="", help_text="for lists; as rendered last", max_length=200
                    ),
                ),
                (
                    "content_hash",
                    models.CharField(
                        blank=True, db_default="", default="", help_text="SHA-256, as rendered last", max_length=64
                    ),
                ),
                (
                    "content_size",
                    models.PositiveIntegerField(db_default=0, default=0, help_text="bytes, as rendered last"),
                ),
                (
                    "relay",
                    models.CharField(
                        blank=True, db_default="", default="", help_text="the relay of the last attempt", max_length=300
                    ),
                ),
                (
                    "provider_id",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the name that a provider gave it",
                        max_length=300,
                    ),
                ),
                (
                    "ask_until",
                    models.DateTimeField(
                        help_text="until then the relay knows the idempotency key: asking again settles an unknown outcome",
                        null=True,
                    ),
                ),
                (
                    "earlier_reply",
                    models.TextField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="of an earlier attempt that was accepted, known while a later one is made",
                    ),
                ),
            ],
            options={
                "verbose_name": "e-mail",
                "permissions": [
                    ("resolve_email", "Can say what became of an e-mail, cancel it, and pause kinds"),
                    ("redirect_email", "Can have an e-mail that may be resolved go to another address, and so read it"),
                ],
            },
        ),
        migrations.CreateModel(
            name="MailAct",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("acted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("pause", "paused the kind"),
                            ("resume", "resumed the kind"),
                            ("suppress", "put the address on the suppression list"),
                            ("release", "took the address off the suppression list"),
                            ("forget", "had the address forgotten"),
                        ],
                        max_length=10,
                    ),
                ),
                ("about", models.CharField(help_text="the kind, or the hash of the address", max_length=100)),
                ("who", models.CharField(max_length=254)),
                ("why", models.TextField()),
            ],
            options={
                "verbose_name": "act",
            },
        ),
        migrations.CreateModel(
            name="PausedKind",
            fields=[
                ("kind", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("paused_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("who", models.CharField(max_length=254)),
                ("why", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="RelayHold",
            fields=[
                ("relay", models.CharField(max_length=300, primary_key=True, serialize=False)),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("tried_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("reason", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Resolution",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resolved_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "act",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("arrived", "it arrived"),
                            ("resend", "send it again"),
                            ("give up", "leave it unsent"),
                            ("cancel", "do not send it"),
                            ("correct", "render it anew"),
                            ("bounced", "it came back"),
                        ],
                        db_default="",
                        help_text="empty in old rows",
                        max_length=10,
                    ),
                ),
                (
                    "arrived",
                    models.BooleanField(db_default=False, help_text="it arrived: what old rows say instead of `act`"),
                ),
                ("who", models.CharField(max_length=254)),
                ("why", models.TextField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("claimed", "Claimed"),
                            ("sending", "Sending"),
                            ("sent", "Sent"),
                            ("failed", "Failed"),
                            ("unknown", "Unknown"),
                            ("bounced", "Bounced"),
                            ("cancelled", "Cancelled"),
                            ("suppressed", "Suppressed"),
                            ("expired", "Expired"),
                        ],
                        help_text="the e-mail's, before",
                        max_length=10,
                    ),
                ),
                (
                    "phase",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("not begun", "Not Begun"),
                            ("before dot", "Before Dot"),
                            ("after dot", "After Dot"),
                            ("forgotten", "Forgotten"),
                            ("begun", "Begun"),
                        ],
                        max_length=10,
                    ),
                ),
                ("last_reply", models.TextField()),
                ("claimed_by", models.CharField(blank=True, max_length=300)),
            ],
        ),
        migrations.CreateModel(
            name="Suppression",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address_hash", models.CharField(help_text="SHA-256", max_length=64, unique=True)),
                ("address", models.CharField(blank=True, help_text="empty when it was forgotten", max_length=320)),
                ("why", models.TextField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Rendering",
            fields=[
                (
                    "email",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="rendering",
                        serialize=False,
                        to="weir_mail.email",
                    ),
                ),
                ("content", models.BinaryField(help_text="the e-mail with its headers (RFC 5322)")),
                ("rendered_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                condition=models.Q(("state", "pending")), fields=["next_attempt_at", "id"], name="weir_email_pending"
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["kind", "priority", "next_attempt_at", "id"],
                name="weir_email_queues",
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                models.F("state"),
                models.F("sending_since"),
                condition=models.Q(("state__in", ["claimed", "sending", "unknown"])),
                name="weir_email_held",
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), ("state__in", ["pending", "claimed"])),
                fields=["expires_at"],
                name="weir_email_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                condition=models.Q(("state", "sent"), _negated=True),
                fields=["state", "created_at", "id"],
                name="weir_email_not_sent",
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["failed", "unknown", "bounced", "cancelled", "suppressed", "expired"])
                ),
                fields=["kind", "state", "created_at", "id"],
                name="weir_email_unsent_by_kind",
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(fields=["kind", "id"], name="weir_email_kind"),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                django.db.models.functions.comparison.Collate(django.db.models.functions.text.Lower("recipient"), "C"),
                models.F("id"),
                name="weir_email_recipient",
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["ended_at"], name="weir_email_by_end"
            ),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(fields=["message_id"], name="weir_email_message_id"),
        ),
        migrations.AddIndex(
            model_name="email",
            index=models.Index(
                condition=models.Q(("provider_id", ""), _negated=True),
                fields=["provider_id"],
                name="weir_email_provider_id",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.UniqueConstraint(fields=("kind", "key"), name="weir_email_kind_key_unique"),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "pending",
                            "claimed",
                            "sending",
                            "sent",
                            "failed",
                            "unknown",
                            "bounced",
                            "cancelled",
                            "suppressed",
                            "expired",
                        ],
                    )
                ),
                name="weir_email_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.Exact(
                    models.Q(("state__in", ["claimed", "sending", "unknown"])), models.Q(("claim_token__isnull", False))
                ),
                name="weir_email_held_has_token",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.Exact(
                    models.Q(("state__in", ["claimed"])), models.Q(("claimed_until__isnull", False))
                ),
                name="weir_email_claimed_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.Exact(
                    models.Q(("state__in", ["sending", "unknown"])), models.Q(("sending_since__isnull", False))
                ),
                name="weir_email_sending_has_since",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.Exact(
                    models.Q(("state__in", ["sent", "bounced"])), models.Q(("sent_at__isnull", False))
                ),
                name="weir_email_sent_has_sent_at",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "failed"), _negated=True),
                    models.Q(("last_reply", ""), _negated=True),
                    _connector="OR",
                ),
                name="weir_email_failed_says_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "unknown"), _negated=True),
                    models.Q(models.Q(("phase", ""), _negated=True), models.Q(("last_reply", ""), _negated=True)),
                    _connector="OR",
                ),
                name="weir_email_unknown_says_what_is_known",
            ),
        ),
        migrations.AddIndex(
            model_name="mailact",
            index=models.Index(fields=["about", "id"], name="weir_mail_act_about"),
        ),
        migrations.AddConstraint(
            model_name="mailact",
            constraint=models.CheckConstraint(
                condition=models.Q(models.Q(("who", ""), _negated=True), models.Q(("why", ""), _negated=True)),
                name="weir_mail_act_says_who_and_why",
            ),
        ),
        migrations.AddField(
            model_name="resolution",
            name="email",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="resolutions", to="weir_mail.email"
            ),
        ),
        migrations.AddIndex(
            model_name="rendering",
            index=models.Index(fields=["rendered_at"], name="weir_rendering_rendered_at"),
        ),
        migrations.AddConstraint(
            model_name="resolution",
            constraint=models.CheckConstraint(
                condition=models.Q(models.Q(("who", ""), _negated=True), models.Q(("why", ""), _negated=True)),
                name="weir_resolution_says_who_and_why",
            ),
        ),
    ]
