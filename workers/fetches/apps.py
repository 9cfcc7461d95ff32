"""The app `fetches`: URLs that are fetched, each at the rate of its site."""

from weir.postgres import weir_apps
from weir.postgres.statements import Statement

DISPATCH_HAS_WORK = Statement("dispatch_has_work", returns=bool, commits=False, prepare=True)
SWEEP_HAS_WORK = Statement("sweep_has_work", returns=bool, commits=False, prepare=True)


class FetchesConfig(weir_apps.WeirApp):
    """Registers the system checks, the questions of beat, and the receiver for a step of PostgreSQL's clock."""

    name = "weir.workers.fetches"
    label = "weir_fetches"
    verbose_name = "Weir: fetches"

    def ready(self) -> None:
        from weir.workers import task_names  # noqa: PLC0415  needs loaded apps, as the next
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.fetches import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
        from weir.workers.fetches.maintenance import stepping  # noqa: PLC0415  needs loaded apps
        from weir.workers.fetches.once import kinds  # noqa: F401, PLC0415  as checks
        from weir.workers.recovery.signals import postgresql_clock_stepped  # noqa: PLC0415  as above

        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.fetches")
        work.ask_before(task_names.DISPATCH, work.answer_of(DISPATCH_HAS_WORK))
        work.ask_before(task_names.SWEEP, work.answer_of(SWEEP_HAS_WORK))
