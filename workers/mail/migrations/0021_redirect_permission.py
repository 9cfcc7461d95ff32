"""A permission more, which nobody is given by it: who may resolve e-mails was not to read them for that alone."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("mail", "0020_expires_indexes")]

    operations = [
        migrations.AlterModelOptions(
            name="email",
            options={
                "permissions": [
                    ("resolve_email", "Can say what became of an e-mail, cancel it, and pause kinds"),
                    ("redirect_email", "Can have an e-mail that may be resolved go to another address, and so read it"),
                ],
                "verbose_name": "e-mail",
            },
        ),
    ]
