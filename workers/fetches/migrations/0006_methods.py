"""Requests with other methods than GET, and their bodies; the redirects of each fetch."""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

# A fetcher of the version before would send each request as a GET. Claims of this version say that they know methods;
# from other claims, a fetch with another method is kept away: it stays reserved, and goes back to the queue.
KEEP_AWAY = """
    CREATE FUNCTION weir_fetches_claims_know_methods() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('weir.sends_methods', true) = 'on' THEN
            RETURN NEW;
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_keep_away BEFORE UPDATE OF state ON weir_fetches_fetch FOR EACH ROW
    WHEN (NEW.method <> 'GET' AND NEW.state = 'running' AND OLD.state <> 'running')
    EXECUTE FUNCTION weir_fetches_claims_know_methods()
"""
BODY_OF_A_FETCH = """
    ALTER TABLE weir_fetches_requestbody ADD CONSTRAINT weir_fetches_requestbody_of_fetch
    FOREIGN KEY (fetch_id) REFERENCES weir_fetches_fetch ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED NOT VALID
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0005_request_headers")]

    operations = [
        migrations.AlterModelOptions(
            "fetch",
            {
                "verbose_name_plural": "fetches",
                "permissions": [("send_fetch", "Can have sites asked with POST, PUT, PATCH and DELETE")],
            },
        ),
        migrations.AddField(
            "fetch",
            "method",
            models.CharField(db_default="GET", default="GET", help_text="as it was asked for", max_length=6),
        ),
        migrations.AddField(
            "fetch",
            "has_become_get",
            models.BooleanField(db_default=False, default=False, help_text="by a redirect"),
        ),
        migrations.AddField(
            "fetch",
            "idempotency_key",
            models.UUIDField(
                help_text="the Idempotency-Key of all attempts; NULL for GET, HEAD, and if request_headers has one",
                null=True,
            ),
        ),
        migrations.AddField(
            "fetch",
            "redirect_chain",
            models.JSONField(
                help_text="[status, URL] of each redirect: where it led; NULL without a redirect", null=True
            ),
        ),
        migrations.AddField(
            "fetch",
            "max_redirects",
            models.PositiveSmallIntegerField(db_default=10, default=10, help_text="0: a redirect is the result"),
        ),
        migrations.CreateModel(
            "RequestBody",
            [
                (
                    "fetch",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="weir_fetches.fetch",
                    ),
                ),
                ("content", models.BinaryField()),
            ],
        ),
        migrations.RunSQL(
            BODY_OF_A_FETCH,
            "ALTER TABLE weir_fetches_requestbody DROP CONSTRAINT weir_fetches_requestbody_of_fetch",
        ),
        migrations.RunSQL(KEEP_AWAY, "DROP FUNCTION weir_fetches_claims_know_methods CASCADE"),
        AddConstraintNotValid(
            "fetch",
            models.CheckConstraint(
                condition=models.Q(method__in=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")),
                name="weir_fetch_method_known",
            ),
        ),
        AddConstraintNotValid(
            "fetch",
            models.CheckConstraint(condition=models.Q(max_redirects__lte=20), name="weir_fetch_max_redirects_bounded"),
        ),
    ]
