"""How long the audit trail is kept."""

from datetime import timedelta
from typing import Final

from django.db.models.functions import Now

from weir.conf import settings
from weir.workers.audit.models import Entry

SHORTEST: Final = timedelta(days=30)  # the trigger weir_audit_entry_kept refuses to delete younger entries
MARGIN: Final = timedelta(minutes=1)
BATCH: Final = 1_000


def purge() -> int:
    """Delete the entries that are older than WEIR_AUDIT_RETENTION, in short batches; return how many were deleted."""
    kept = max(timedelta(seconds=settings.WEIR_AUDIT_RETENTION), SHORTEST + MARGIN)
    deleted = 0
    while ids := list(Entry.objects.filter(at__lt=Now() - kept).order_by("at").values_list("pk", flat=True)[:BATCH]):
        deleted += Entry.objects.filter(pk__in=ids).delete()[0]
    return deleted
