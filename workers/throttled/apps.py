"""The app `weir.workers.throttled`: Celery tasks that start only in a slot of their site."""

from weir.postgres import weir_apps
from weir.postgres.statements import Statement

PUBLISH_HAS_WORK = Statement("publish_has_work", returns=bool, commits=False, prepare=True)


class ThrottledConfig(weir_apps.WeirApp):
    """Owns the table of postponed tasks."""

    name = "weir.workers.throttled"
    label = "weir_throttled"
    verbose_name = "Weir: throttled tasks"

    def ready(self) -> None:
        """Make beat ask whether tasks are postponed, and correct their times after a step of PostgreSQL's clock."""
        from weir.workers import task_names  # noqa: PLC0415  needs loaded apps, as the next
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.recovery.signals import postgresql_clock_stepped  # noqa: PLC0415
        from weir.workers.throttled import stepping  # noqa: PLC0415

        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.throttled")
        work.ask_before(task_names.PUBLISH_POSTPONED, work.answer_of(PUBLISH_HAS_WORK))
