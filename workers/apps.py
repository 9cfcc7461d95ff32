"""The app `workers`: code that all Celery tasks share, the schedule, and heartbeats, which prove that tasks run."""

from django.db.models.signals import post_migrate

from weir.postgres import weir_apps


class WorkersConfig(weir_apps.WeirApp):
    """Owns the tables of heartbeats and of beat's lease, and writes the schedule after `migrate`."""

    name = "weir.workers"
    label = "weir_workers"
    verbose_name = "Weir: workers"

    def ready(self) -> None:
        from weir.workers.beat import rows  # noqa: PLC0415  needs loaded apps
        from weir.workers.tracing import checks  # noqa: F401, PLC0415  registers by being imported

        post_migrate.connect(rows.after_migrate, sender=self, dispatch_uid="weir.workers")
