import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0007_any_kind_indexes")]

    operations = [
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
                "indexes": [models.Index(fields=["about", "id"], name="mail_act_about")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("who", ""), _negated=True) & models.Q(("why", ""), _negated=True),
                        name="mail_act_says_who_and_why",
                    ),
                ],
            },
        ),
    ]
