import django.core.validators
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.CharField(max_length=50, unique=True)),
                (
                    "customer_email",
                    models.CharField(max_length=254, validators=[django.core.validators.EmailValidator()]),
                ),
                ("placed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("shipped_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
        ),
    ]
