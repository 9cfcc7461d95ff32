"""The app `workers`: what all Celery tasks share, the schedule, and the heartbeats that prove that tasks run."""

from weir.postgres import statements, weir_apps


class WorkersConfig(weir_apps.WeirApp):
    """Owns the heartbeat."""

    name = "weir.workers"

    def ready(self) -> None:
        """Read the statements of all apps: a worker that is out of file descriptors must still store what it holds."""
        for package in ("weir.notifications", "weir.ratelimit", "weir.workers"):
            statements.load(package)
