"""The app `digests`: e-mails that tell users of notifications that they have not read."""

import math

from weir.postgres import weir_apps


class DigestsConfig(weir_apps.WeirApp):
    """Tells notifications by e-mail; registers the checks, beat's question, and the receiver for who unsubscribes."""

    name = "weir.digests"
    label = "weir_digests"
    verbose_name = "Weir: digests"

    def ready(self) -> None:
        from weir.digests import checks, emails, gathering, unsubscribing  # noqa: F401, PLC0415  needs loaded apps
        from weir.notifications.channels import kinds, telling  # noqa: PLC0415
        from weir.notifications.removal import retention  # noqa: PLC0415
        from weir.workers import task_names  # noqa: PLC0415
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.mail.signals import unsubscribed  # noqa: PLC0415

        kinds.tell_by(gathering.deliver)
        retention.keep_told_by(emails.undecided)
        unsubscribed.connect(unsubscribing.note, dispatch_uid="weir.digests")
        has_work = work.answer_of(telling.DIGESTS_HAVE_WORK)
        work.ask_before(task_names.GATHER_DIGESTS, has_work, sent_every_s=math.inf)
