"""Variables that Weir does not read, and the messages of Django's system checks, which include Weir's."""

import os
from collections.abc import Iterable, Sequence

from django.core import checks as django_checks
from django.core.checks import CheckMessage

from project.checks import UNKNOWN_VARIABLE
from project.doctor.findings import Check, Level, Verdict, good, not_checked
from project.environment.unknown import unknown

_OF_PRODUCTION = "security."  # the ids of Django's messages about secrets and cookies on a public network begin so


def names(given: Iterable[str]) -> Sequence[Verdict]:
    """Judge the names of the environment's variables; those of .env are already among them."""
    found = [Verdict(Level.WARNING, sentence) for _, sentence in unknown(given)]
    return found or [good("Weir reads each variable that looks like one of its own.")]


def messages(found: Iterable[CheckMessage], *, in_production: bool) -> Sequence[Verdict]:
    """Turn the messages of system checks into verdicts, with their ids as names.

    Outside production, Django's messages about production (`security.`) are left out.
    """
    told = [
        Verdict(Level.WRONG if message.is_serious() else Level.WARNING, _sentence(message), str(message.id))
        for message in found
        if not message.is_silenced() and message.id != UNKNOWN_VARIABLE
        if in_production or not str(message.id).startswith(_OF_PRODUCTION)
    ]
    return told or [good("`manage.py check --deploy` finds nothing.")]


def production(*, in_production: bool) -> Verdict:
    """Say whether the settings are judged as settings of production."""
    if in_production:
        return good("DATABASE_URL is set: secret key, cookies and TLS are judged as in production.")
    return not_checked(
        "Secret key, cookies and TLS are judged where DATABASE_URL is set: as it is, Weir is for one host."
    )


def _sentence(message: CheckMessage) -> str:
    return " ".join(f"{message.msg} {message.hint or ''}".split())


def checks() -> list[Check]:
    """Return the checks of this theme."""
    real = bool(os.environ.get("DATABASE_URL", "").strip())
    return [
        Check(name="variables", ask=lambda: names(os.environ)),
        Check(
            name="settings",
            ask=lambda: messages(django_checks.run_checks(include_deployment_checks=True), in_production=real),
            within_s=10,
        ),
        Check(name="production", ask=lambda: production(in_production=real)),
    ]
