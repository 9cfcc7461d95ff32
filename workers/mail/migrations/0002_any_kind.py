from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0001_initial")]

    operations = [
        migrations.AlterModelOptions(
            name="email",
            options={
                "permissions": [("resolve_email", "Can say what became of an e-mail, cancel it, and pause kinds")],
                "verbose_name": "e-mail",
            },
        ),
        migrations.RemoveConstraint(
            model_name="email",
            name="email_state_known",
        ),
        migrations.RemoveConstraint(
            model_name="email",
            name="email_sent_has_sent_at",
        ),
        migrations.AddField(
            model_name="email",
            name="ask_until",
            field=models.DateTimeField(
                help_text="until then the relay knows the idempotency key: asking again settles an unknown outcome",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="content_hash",
            field=models.CharField(
                blank=True, default="", db_default="", help_text="SHA-256, as rendered last", max_length=64
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="content_size",
            field=models.PositiveIntegerField(default=0, db_default=0, help_text="bytes, as rendered last"),
        ),
        migrations.AddField(
            model_name="email",
            name="context",
            field=models.JSONField(default=dict, db_default={}, help_text="the arguments of its kind"),
        ),
        migrations.AddField(
            model_name="email",
            name="earlier_reply",
            field=models.TextField(
                blank=True,
                default="",
                db_default="",
                help_text="of an earlier attempt that was accepted, known while a later one is made",
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="language",
            field=models.CharField(
                blank=True, default="", db_default="", help_text="that it is rendered in", max_length=20
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="priority",
            field=models.SmallIntegerField(default=0, db_default=0, help_text="higher ones go first"),
        ),
        migrations.AddField(
            model_name="email",
            name="provider_id",
            field=models.CharField(
                blank=True,
                default="",
                db_default="",
                help_text="the name that a provider gave it",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="recipient",
            field=models.CharField(
                blank=True,
                default="",
                db_default="",
                help_text="the address; empty when it was forgotten",
                max_length=320,
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="recipient_name",
            field=models.CharField(
                blank=True, default="", db_default="", help_text="as in To: Name <address>", max_length=200
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="relay",
            field=models.CharField(
                blank=True,
                default="",
                db_default="",
                help_text="the relay of the last attempt",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="email",
            name="renderings",
            field=models.PositiveSmallIntegerField(default=0, db_default=0, help_text="how often it was rendered"),
        ),
        migrations.AddField(
            model_name="email",
            name="subject",
            field=models.CharField(
                blank=True,
                default="",
                db_default="",
                help_text="for lists; as rendered last",
                max_length=200,
            ),
        ),
        migrations.AlterField(
            model_name="email",
            name="last_reply",
            field=models.TextField(blank=True, help_text="what the relay said last, or what happened instead"),
        ),
        migrations.AlterField(
            model_name="email",
            name="state",
            field=models.CharField(
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
                ],
                default="pending",
                max_length=10,
            ),
        ),
        AddConstraintNotValid(
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
                        ],
                    )
                ),
                name="email_state_known",
            ),
        ),
        AddConstraintNotValid(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["sent", "bounced"]), ("sent_at__isnull", True), _connector="XOR"),
                name="email_sent_has_sent_at",
            ),
        ),
    ]
