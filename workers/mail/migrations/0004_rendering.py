import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0003_any_kind_valid")]

    operations = [
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
                        to="mail.email",
                    ),
                ),
                ("content", models.BinaryField(help_text="the e-mail with its headers (RFC 5322)")),
                ("rendered_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddIndex(
            model_name="rendering",
            index=models.Index(fields=["rendered_at"], name="rendering_rendered_at"),
        ),
    ]
