"""The app `webhooks`: URLs to which the ends of fetches and e-mails are delivered, by fetches of their own."""

import math

from weir.postgres import weir_apps


class WebhooksConfig(weir_apps.WeirApp):
    """Registers the system check, the question of beat, and the receiver for a step of PostgreSQL's clock."""

    name = "weir.workers.webhooks"
    label = "weir_webhooks"
    verbose_name = "Weir: webhooks"

    def ready(self) -> None:
        from weir.workers import task_names  # noqa: PLC0415  needs loaded apps, as the next
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.recovery.signals import postgresql_clock_stepped  # noqa: PLC0415
        from weir.workers.webhooks import checks, delivering, stepping  # noqa: F401, PLC0415  checks register themselves

        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.webhooks")
        work.ask_before(task_names.DELIVER_WEBHOOKS, delivering.has_work, sent_every_s=math.inf)
