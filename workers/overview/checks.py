"""The system check of the setting that names operators."""

from typing import Any

from django.core.checks import CheckMessage, Error

from weir.conf import settings
from weir.conf.checks import register
from weir.postgres import weir_apps
from weir.workers.overview.telling import MAIL


@register()
def operators_can_be_told(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E036: WEIR_OPERATORS names addresses, and needs the app that sends e-mails."""
    if not settings.WEIR_OPERATORS:
        return []
    if not weir_apps.is_installed(MAIL):
        hint = f"Install {MAIL}, or leave WEIR_OPERATORS empty."
        return [Error("WEIR_OPERATORS is set, but no app sends e-mails.", hint=hint, id="weir.E036")]
    from weir.workers.mail import addresses  # noqa: PLC0415  as above

    try:
        for operator in settings.WEIR_OPERATORS:
            addresses.split(operator)
    except addresses.CannotBeWritten as error:
        return [Error(f"WEIR_OPERATORS: {error}", hint="Write ann@example.com,ben@example.com.", id="weir.E036")]
    return []
