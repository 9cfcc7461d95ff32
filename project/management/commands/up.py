import shutil
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import NoReverseMatch, reverse

from project.logins import links
from project.processes import folder, interrupts, procfile, up
from weir.conf import settings as weir_settings
from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.arguments import from_zero, port
from weir.workers.fetches.robots.user_agent import has_contact
from weir.workers.mail.transports import relays


class Command(ExactCommand):
    help = (
        "Run Weir here: the processes of the Procfile, on embedded servers unless DATABASE_URL and "
        "REDIS_URL name others. They start again when code changes. E-mails are caught in a folder unless EMAIL_HOST, "
        "EMAIL_BACKEND or WEIR_MAIL_RELAYS is set. Ctrl-C stops everything."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--port", type=port, default=8000, help="the web process' port (default: 8000)")
        parser.add_argument(
            "--fetchers", type=from_zero, default=0, help="how many more processes that fetch (default: 0)"
        )
        parser.add_argument("--no-reload", action="store_true", help="do not start anew when code changes")
        parser.add_argument(
            "--allow-loopback", action="store_true", help="let 127.0.0.0/8 and ::1 be fetched, on any port"
        )

    def handle(self, *_args: object, **options: Any) -> None:
        chosen = up.Options(
            port=options["port"],
            fetchers=options["fetchers"],
            reloads=not options["no_reload"],
            allows_loopback=options["allow_loopback"],
        )
        try:
            with interrupts.raised_once():
                up.run(chosen, self._announce, self._say)
        except interrupts.Interrupted:
            self._say("Stopped.")
        except (up.CannotStart, folder.AlreadyRuns, procfile.NotReady) as error:
            raise CommandError(str(error)) from error
        except procfile.ProcessesEnded:
            raise CommandError(
                "One of the processes ended, and the others were stopped with it: see its last lines above."
            ) from None

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _announce(self, running: up.Running) -> None:
        host, port = running.host, running.options.port
        base = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104  only compared
        python = f"{_python()} manage.py"
        self._say("")
        self._say(self.style.SUCCESS("Weir is running. Ctrl-C stops it."))
        for name, text in (
            ("pages", _pages(base, f"{python} sign_in_link")),
            *_bell(base),
            ("admin", f"{base}/admin/ (make a user: {python} createsuperuser)"),
            ("fetch", f"{python} fetch https://example.com"),
            ("mail", _mail(running.mail)),
            ("local", _local(allowed=running.options.allows_loopback)),
            ("code", _code(reloads=running.options.reloads)),
            ("data", settings.EMBEDDED_HOME),
            *_contact(),
        ):
            self._say(f"  {name:<8} {text}")
        self._say("")


def _pages(base: str, later: str) -> str:
    """Return a link to the operators' pages, or why there is none."""
    try:
        return f"{links.make(base)} (once, within a minute; later: {later})"
    except links.NotOurs as error:
        return f"{base}/: {error}"


def _bell(base: str) -> list[tuple[str, str]]:
    """Return the line about the demo's page with the bell, if the project has that page."""
    try:
        return [("bell", f"{base}{reverse('demo:bell')} (what your users see; sign in first)")]
    except NoReverseMatch:
        return []


def _contact() -> list[tuple[str, str]]:
    """Return a line if WEIR_FETCH_USER_AGENT names no contact. It replaces a warning of each fetcher at each reload."""
    if has_contact(weir_settings.WEIR_FETCH_USER_AGENT):
        return []
    return [("contact", "WEIR_FETCH_USER_AGENT names none: set it before you fetch from sites of others")]


def _python() -> str:
    """Return the command that runs this Python in the checkout, in another terminal."""
    if shutil.which("python") == sys.executable:
        return "python"
    here, path = Path.cwd(), Path(sys.executable)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _mail(caught: Path | None) -> str:
    if caught is not None:
        return f"{caught}: each e-mail becomes a file there, and none is sent; EMAIL_HOST names a mail server"
    if weir_settings.WEIR_MAIL_RELAYS:
        streams = relays.streams()
        ways = [", then ".join(relay.name for relay in stream.relays) for stream in streams]
        kinds = [" and ".join(pattern for pattern, is_its in stream.kinds.items() if is_its) for stream in streams]
        if len(streams) == 1:
            return f"sent by {ways[0]}"
        return "sent by " + "; ".join(f"{way} ({kind})" for way, kind in zip(ways, kinds, strict=True))
    return f"sent by {settings.EMAIL_BACKEND}, mail server {settings.EMAIL_HOST}:{settings.EMAIL_PORT}"


def _local(*, allowed: bool) -> str:
    if allowed:
        return "127.0.0.0/8 and ::1 may be fetched, on any port"
    return "127.0.0.1 is not fetched; make up ARGS=--allow-loopback allows it"


def _code(*, reloads: bool) -> str:
    return "all processes start again when you change it" if reloads else "is not reloaded"
