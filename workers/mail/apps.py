"""The app `mail`: an outbox of e-mails, and the processes that send them, each once."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class MailConfig(AppConfig):
    """Registers the system checks and the kinds of e-mail."""

    name = "workers.mail"
    label = "mail"

    def ready(self) -> None:
        """Import the checks, and the module `emails` of every installed app: importing them registers."""
        from workers.mail import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps

        autodiscover_modules("emails")
