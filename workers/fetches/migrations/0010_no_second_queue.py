"""The index that competed with that of the queue. The version before lists queued fetches more slowly without it."""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0009_newest_queued")]

    operations = [RemoveIndexConcurrently("fetch", "weir_fetch_queued")]
