from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from project.processes import interrupts, procfile, up
from workers.cli.arguments import at_least_one


class Command(BaseCommand):
    help = (
        "Run Weir here: web, workers, fetchers, a mailer and beat, on embedded servers unless DATABASE_URL and "
        "REDIS_URL name others. Ctrl-C stops everything."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="the web process' port (default: 8000)")
        parser.add_argument("--fetchers", type=at_least_one, default=1, help="how many fetchers (default: 1)")

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            with interrupts.raised_once():
                up.run(options["port"], options["fetchers"], self._announce)
        except interrupts.Interrupted:
            self.stdout.write("Stopped.")
        except (up.CannotStart, procfile.NotReady) as error:
            raise CommandError(str(error)) from error
        except procfile.ProcessesEnded:
            raise CommandError(
                "One of the processes ended, and the others were stopped with it: see its last lines above."
            ) from None

    def _announce(self, host: str, port: int) -> None:
        base = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104  only compared
        for line in (
            "",
            self.style.SUCCESS("Weir is running. Ctrl-C stops it."),
            f"  state    {base}/healthz",
            f"  admin    {base}/admin/ (make a user: python manage.py createsuperuser)",
            "  fetch    python manage.py fetch https://example.com",
            f"  data     {settings.EMBEDDED_HOME}",
            "",
        ):
            self.stdout.write(line)
