import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="PostponedTask",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(help_text="the name of the site at which it waits", max_length=300)),
                (
                    "host",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the name that the task gave, by which its site is looked up again; empty: that of the site",
                        max_length=300,
                    ),
                ),
                ("task", models.CharField(help_text="the Celery task's name", max_length=300)),
                ("signature", models.TextField(help_text="the message: a Celery signature, as JSON")),
                ("max_wait", models.FloatField(help_text="the longest wait in a worker, in seconds")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "expires_at",
                    models.DateTimeField(help_text="Celery's `expires`: no worker starts it afterwards", null=True),
                ),
                (
                    "not_before",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="its place in the queue of the site",
                    ),
                ),
                (
                    "publications",
                    models.PositiveSmallIntegerField(default=0, help_text="messages since a worker last held it"),
                ),
                ("published_at", models.DateTimeField(null=True)),
                (
                    "held_by",
                    models.UUIDField(help_text="the fence: a worker starts the task only with this token", null=True),
                ),
                (
                    "lease_until",
                    models.DateTimeField(help_text="when its message or its worker counts as lost", null=True),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("published_at__isnull", True)),
                        fields=["site", "not_before", "id"],
                        name="weir_postponedtask_waiting",
                    ),
                    models.Index(
                        condition=models.Q(("held_by__isnull", True), ("published_at__isnull", False)),
                        fields=["site"],
                        name="weir_postponedtask_on_its_way",
                    ),
                    models.Index(
                        condition=models.Q(("lease_until__isnull", False)),
                        fields=["lease_until"],
                        name="weir_postponedtask_leased",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("published_at__isnull", True), ("lease_until__isnull", False), _connector="XOR"
                        ),
                        name="weir_postponedtask_published_has_lease",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("held_by__isnull", True), ("published_at__isnull", False), _connector="OR"),
                        name="weir_postponedtask_held_is_published",
                    ),
                ],
            },
        ),
    ]
