"""The app `recovery`: finds out that PostgreSQL has forgotten, and recovers from that."""

from weir.postgres import weir_apps
from weir.postgres.timeline import gate


class RecoveryConfig(weir_apps.WeirApp):
    """Owns the list of recoveries, makes Redis the witness, and settles steps of PostgreSQL's clock."""

    name = "weir.workers.recovery"
    label = "weir_recovery"
    verbose_name = "Weir: recovery"

    def ready(self) -> None:
        """Tell the gate how to ask Redis what other processes have seen of PostgreSQL's history, and how to settle."""
        from weir.workers.recovery import watch, witness  # noqa: PLC0415  needs loaded apps

        gate.set_witness(witness.exchange)
        gate.set_settler(watch.settle_in_thread)
