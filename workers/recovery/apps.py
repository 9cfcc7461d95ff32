"""The app `recovery`: finds out that PostgreSQL has forgotten commits, and recovers from the loss."""

from weir.postgres import weir_apps
from weir.postgres.timeline import gate


class RecoveryConfig(weir_apps.WeirApp):
    """Owns the list of recoveries, makes Redis the witness of PostgreSQL's history, and settles steps of its clock."""

    name = "weir.workers.recovery"
    label = "weir_recovery"
    verbose_name = "Weir: recovery"

    def ready(self) -> None:
        """Give the gate its two functions: one asks the witness, and one is called after a step of the clock."""
        from weir.workers.recovery import watch, witness  # noqa: PLC0415  needs loaded apps

        gate.set_witness(witness.exchange)
        gate.set_settler(watch.settle_in_thread)
