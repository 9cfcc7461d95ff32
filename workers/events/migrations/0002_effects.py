"""Events of effects: what is deleted of them is told as of fetches and e-mails."""

from django.db import migrations, models

SUBJECT = models.CharField(
    choices=[("fetch", "Fetch"), ("email", "Email"), ("effect", "Effect")], help_text="what has ended", max_length=10
)
SUBJECT_ID = models.BigIntegerField(help_text="of the fetch, e-mail or effect; the row may be gone")
KIND = models.CharField(db_default="", help_text="of an e-mail or an effect", max_length=100)
REFERENCE = models.CharField(
    db_default="", help_text="the caller's: the fetch's reference, the e-mail's or effect's key", max_length=200
)


class Migration(migrations.Migration):
    dependencies = [("weir_events", "0001_initial")]

    operations = [
        migrations.AddField(
            "eventlog",
            "purged_effect_id",
            models.BigIntegerField(db_default=0, default=0, help_text="as above, of an effect"),
        ),
        *(
            migrations.AlterField(model, name, field.clone())
            for model in ("event", "newevent")
            for name, field in {
                "subject": SUBJECT,
                "subject_id": SUBJECT_ID,
                "kind": KIND,
                "reference": REFERENCE,
            }.items()
        ),
    ]
