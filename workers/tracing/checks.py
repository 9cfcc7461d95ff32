"""The system check of spans."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004  Django's own name

from weir.conf import settings
from weir.conf.checks import register
from weir.workers.tracing import spans


@register()
def spans_can_be_exported(**_kwargs: Any) -> Sequence[CheckMessage]:
    """weir.W006: OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra `otel` is missing, so no span is recorded."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT or not (lacks := spans.lacks()):
        return []
    message = f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but no span is recorded: {lacks}."
    return [Warning(message, hint='Install the extra: pip install "django-weir[otel]"', id="weir.W006")]
