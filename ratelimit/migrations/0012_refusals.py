from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    """Which statuses refuse at a site, and what a site that is backed off has answered."""

    dependencies = [("ratelimit", "0011_list_indexes")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="refusing",
            field=ArrayField(
                base_field=models.PositiveSmallIntegerField(),
                blank=True,
                help_text="statuses by which it refuses more requests; empty = 429 and 503, and with a Retry-After some "
                "others",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="site",
            name="backoff_reason",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="what it answered that nothing starts before backed_off_until; empty where it cannot be reached",
                max_length=200,
            ),
        ),
        migrations.AddField(
            model_name="site",
            name="refused_until",
            field=models.DateTimeField(
                blank=True,
                help_text="where backed_off_until is due to a quota that is used up: the end of what it refused",
                null=True,
            ),
        ),
        AddConstraintNotValid(
            model_name="site",
            constraint=models.CheckConstraint(
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
                name="site_refusing_usable",
            ),
        ),
    ]
