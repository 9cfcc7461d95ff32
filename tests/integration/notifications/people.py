"""An app with a user model of its own, whose primary key is what a test needs."""

from pathlib import Path

MODELS = """
import uuid
from django.contrib.auth.models import AbstractUser
from django.db import models

class Person(AbstractUser):
    id = KEY
"""
MIGRATION = """
import uuid
import django.contrib.auth.models
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("auth", "0012_alter_user_first_name_max_length")]
    operations = [
        migrations.CreateModel(
            "Person",
            [
                ("id", KEY),
                ("password", models.CharField(max_length=128)),
                ("last_login", models.DateTimeField(null=True)),
                ("is_superuser", models.BooleanField(default=False)),
                ("username", models.CharField(max_length=150, unique=True)),
                ("first_name", models.CharField(max_length=150)),
                ("last_name", models.CharField(max_length=150)),
                ("email", models.EmailField(max_length=254)),
                ("is_staff", models.BooleanField(default=False)),
                ("is_active", models.BooleanField(default=True)),
                ("date_joined", models.DateTimeField()),
                ("groups", models.ManyToManyField(to="auth.group")),
                ("user_permissions", models.ManyToManyField(to="auth.permission")),
            ],
            managers=[("objects", django.contrib.auth.models.UserManager())],
        ),
    ]
"""
BEFORE = """
import sys
sys.path.insert(0, {folder!r})
from django.conf import settings
settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "people"]
settings.AUTH_USER_MODEL = "people.Person"
"""


def people(folder: Path, key: str) -> str:
    """Write the app to the folder; return the code that a process runs before Django is set up to have these users."""
    package = folder / "people"
    (package / "migrations").mkdir(parents=True)
    (package / "migrations" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(MODELS.replace("KEY", key))
    (package / "migrations" / "0001_initial.py").write_text(MIGRATION.replace("KEY", key))
    return BEFORE.format(folder=str(folder))
