"""The app `watches`: URLs that are fetched again and again, and a task that is called when a page has changed."""

import math

from weir.postgres import weir_apps
from weir.postgres.statements import Statement

# Not prepared: a plan for any task's name could not use weir_fetch_to_be_judged, which has the tick's.
KEEP_WATCH_HAS_WORK = Statement("keep_watch_has_work", returns=bool, commits=False)


class WatchesConfig(weir_apps.WeirApp):
    """Registers the question of beat, and the receiver for a step of PostgreSQL's clock."""

    name = "weir.workers.watches"
    label = "weir_watches"
    verbose_name = "Weir: watches"

    def ready(self) -> None:
        from weir.workers import task_names  # noqa: PLC0415  needs loaded apps, as the next
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.recovery.signals import postgresql_clock_stepped  # noqa: PLC0415
        from weir.workers.watches import stepping  # noqa: PLC0415

        def has_work() -> bool:
            [answer] = KEEP_WATCH_HAS_WORK(on_done=task_names.KEEP_WATCH)
            return answer

        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.watches")
        work.ask_before(task_names.KEEP_WATCH, has_work, sent_every_s=math.inf)
