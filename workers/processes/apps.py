"""The app `weir.workers.processes`: which processes run, and whether each of them goes on."""

from weir.postgres import weir_apps


class ProcessesConfig(weir_apps.WeirApp):
    """Owns the table of processes."""

    name = "weir.workers.processes"
    label = "weir_processes"
    verbose_name = "Weir: processes"

    def ready(self) -> None:
        """Register the system checks, and the receiver that corrects heartbeats after a step of PostgreSQL's clock."""
        from weir.workers.processes import checks, stepping  # noqa: F401, PLC0415  needs loaded apps, as the next
        from weir.workers.recovery.signals import postgresql_clock_stepped  # noqa: PLC0415

        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.processes")
