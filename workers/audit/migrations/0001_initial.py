import django.core.serializers.json
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "actor",
                    models.CharField(
                        help_text="the user, the token, or the account in the operating system", max_length=254
                    ),
                ),
                (
                    "door",
                    models.CharField(
                        choices=[("page", "Page"), ("admin", "Admin"), ("command", "Command"), ("api", "API")],
                        help_text="where the actor came in",
                        max_length=10,
                    ),
                ),
                ("action", models.CharField(help_text="what was done, such as sites.pause", max_length=40)),
                (
                    "target",
                    models.CharField(help_text="what it was done to: a host, a number, a filter", max_length=300),
                ),
                ("why", models.TextField(blank=True, help_text="the reason that the actor has given")),
                (
                    "before",
                    models.JSONField(
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        help_text="what the target was; null: not there, or not kept",
                        null=True,
                    ),
                ),
                (
                    "after",
                    models.JSONField(
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        help_text="what it became; null: it is gone, or not kept",
                        null=True,
                    ),
                ),
                (
                    "correlation_id",
                    models.CharField(
                        blank=True, default="", help_text="the web request, as in log lines", max_length=64
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "entries",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["target", "-id"], name="weir_entry_by_target"),
                    models.Index(fields=["action", "-id"], name="weir_entry_by_action"),
                    models.Index(fields=["actor", "-id"], name="weir_entry_by_actor"),
                    models.Index(fields=["at"], name="weir_entry_by_time"),
                ],
            },
        ),
        # The audit trail is kept as it was written: docs/how-to/operate.md. 30 days: weir.workers.audit.retention.SHORTEST.
        migrations.RunSQL(
            """
            CREATE FUNCTION weir_audit_entry_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF TG_OP = 'DELETE' AND OLD.at < now() - interval '30 days' THEN
                    RETURN OLD;
                END IF;
                RAISE 'The audit trail is not edited: entry % is kept as it is.', OLD.id
                    USING ERRCODE = 'restrict_violation';
            END
            $$
            """,
            "DROP FUNCTION weir_audit_entry_is_kept",
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER weir_audit_entry_kept BEFORE UPDATE OR DELETE ON weir_audit_entry
            FOR EACH ROW EXECUTE FUNCTION weir_audit_entry_is_kept()
            """,
            "DROP TRIGGER weir_audit_entry_kept ON weir_audit_entry",
        ),
    ]
