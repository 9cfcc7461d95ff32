import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0004_rendering")]

    operations = [
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
            name="Suppression",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address_hash", models.CharField(help_text="SHA-256", max_length=64, unique=True)),
                ("address", models.CharField(blank=True, help_text="empty when it was forgotten", max_length=320)),
                ("why", models.TextField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
    ]
