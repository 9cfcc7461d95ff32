"""The app `mail`: an outbox of e-mails, and the processes that send each e-mail once."""

from importlib import import_module

from django.utils.module_loading import autodiscover_modules

from weir.conf import hidden
from weir.postgres import weir_apps


class MailConfig(weir_apps.WeirApp):
    """Registers the system checks and the kinds of e-mail."""

    name = "weir.workers.mail"
    label = "weir_mail"
    verbose_name = "Weir: e-mails"

    def ready(self) -> None:
        """Import the checks, and the module `emails` of each installed app, which registers kinds of e-mail.

        Also connects the receivers of recovery's signals, and tells beat how to ask whether mailers have work.
        """
        from weir.workers import task_names  # noqa: PLC0415  needs loaded apps
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.ledger.queueing import HAS_WORK  # noqa: PLC0415
        from weir.workers.mail import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
        from weir.workers.mail.maintenance import recovering, stepping  # noqa: PLC0415  needs loaded apps
        from weir.workers.mail.phases import NAMES  # noqa: PLC0415
        from weir.workers.mail.transports import mail_server  # noqa: PLC0415  needs loaded apps
        from weir.workers.recovery.signals import postgresql_clock_stepped, postgresql_went_back  # noqa: PLC0415

        postgresql_went_back.connect(recovering.make_unknown, dispatch_uid="weir.workers.mail")
        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.mail")
        work.ask_before(task_names.SEND_EMAILS, work.answer_of(HAS_WORK.with_names(NAMES._asdict())))

        if mail_server.names_outbox():
            import_module("weir.workers.mail.django_mail.backend")  # it registers the kind of Django's messages
        autodiscover_modules("emails")
        hidden.hide()
