"""System checks of the environment."""

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register  # noqa: A004  Django's name

from project.environment.unknown import unknown
from workers.tracing import spans

UNKNOWN_VARIABLE = "weir.W003"


@register
def variables_are_known(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W003: a variable that begins with WEIR_, or is one letter off one of Django's, is read by nobody."""
    hint = "Where it is a variable of another version of Weir, nothing has to be done."
    return [Warning(sentence, hint=hint, id=UNKNOWN_VARIABLE) for _, sentence in unknown(os.environ)]


@register
def spans_can_be_exported(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W006: OTEL_EXPORTER_OTLP_ENDPOINT needs an extra, without which no span is recorded."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT or not (lacks := spans.lacks()):
        return []
    message = f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but no span is recorded: {lacks}."
    return [Warning(message, hint='Install the extra: pip install "weir[otel]"', id="weir.W006")]
