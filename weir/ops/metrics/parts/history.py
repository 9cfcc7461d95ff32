"""The totals of the history, and up to which minute the history goes."""

from collections.abc import Iterator

from django.db.models import F
from django.db.models.functions import Now
from prometheus_client.metrics_core import Metric

from weir.ops.metrics.families import gauge
from weir.ops.metrics.parts import totals
from weir.workers.history import reports
from weir.workers.history.models import Watermark
from weir.workers.mail import kinds


def families() -> Iterator[Metric]:
    """Yield the totals of all minutes that were rolled up, and the age of the newest of these minutes."""
    yield from totals.families(reports.totals(), kinds.names())
    for age in Watermark.objects.annotate(age=Now() - F("rolled_until")).values_list("age", flat=True):
        # If the clock was set back, the newest minute lies in the future, and the rollup waits for the minute after it.
        # The distance is shown all the same, not 0.
        meaning = "Age of the last minute whose fetches, slots and e-mails are in the totals; some minutes are normal."
        yield gauge("weir_history_age_seconds", meaning, abs(age.total_seconds()))
