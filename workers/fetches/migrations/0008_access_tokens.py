"""Access tokens of OAuth clients, and the fetches that ask for them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0007_methods_checked")]

    operations = [
        migrations.CreateModel(
            "AccessToken",
            [
                (
                    "key",
                    models.UUIDField(
                        help_text="of the client's description, made with SECRET_KEY", primary_key=True, serialize=False
                    ),
                ),
                ("client", models.TextField(help_text="the name of the secret that describes the client")),
                ("version", models.BigIntegerField(db_default=0, default=0, help_text="how many tokens there were")),
                ("sealed", models.BinaryField(help_text="the newest token, encrypted", null=True)),
                ("obtained_at", models.DateTimeField(help_text="when that token was asked for", null=True)),
                ("expires_at", models.DateTimeField(help_text="when that token no longer counts", null=True)),
                ("refresh_at", models.DateTimeField(help_text="when a token is asked for again")),
                (
                    "error",
                    models.TextField(
                        blank=True, db_default="", default="", help_text="why the last request brought none"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(sealed__isnull=True, obtained_at__isnull=True, expires_at__isnull=True)
                        | models.Q(sealed__isnull=False, obtained_at__isnull=False, expires_at__isnull=False),
                        name="weir_access_token_has_times",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(sealed__isnull=False) | ~models.Q(error=""),
                        name="weir_access_token_or_error",
                    ),
                ],
            },
        ),
        migrations.AddField(
            "fetch",
            "token_client",
            models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="the OAuth client for which Weir itself asks for an access token; dedupe_key is the token's key",
            ),
        ),
    ]
