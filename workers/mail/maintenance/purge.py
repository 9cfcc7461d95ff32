"""Deletes renderings of e-mails after their retention. The e-mails' rows stay, with the hashes of the contents."""

import math
import time
from datetime import UTC, datetime
from typing import NamedTuple

from weir.conf import settings
from weir.postgres.statements import Statement

BATCH = 500  # renderings, which may be large
WITHIN_S = 5.0  # how long the purge may take, every ten minutes
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)  # `forget` gives contents that are to be deleted a time soon after it


class Purged(NamedTuple):
    """What one batch did, and how far it came."""

    looked_at: int
    deleted: int
    last: datetime | None
    last_id: int | None


PURGE_RENDERINGS = Statement("purge_renderings", row=Purged, commits=True)


def purge(within_s: float = math.inf) -> int:
    """Delete the renderings of e-mails that ended, WEIR_MAIL_CONTENT_RETENTION after they were rendered.

    Returns how many were deleted. Works in short batches, which skip rows that other transactions hold locked. After
    `within_s` seconds the rest is left to the next call. May be killed anywhere. Waiting e-mails keep their content,
    however old it is.
    """
    deleted, last, last_id, looked_at = 0, _BEGINNING, 0, BATCH
    give_up_at = time.monotonic() + within_s
    while looked_at == BATCH:
        parameters = {"older_than": settings.WEIR_MAIL_CONTENT_RETENTION, "after": last, "after_id": last_id}
        [batch] = PURGE_RENDERINGS(**parameters, batch=BATCH)
        deleted += batch.deleted
        looked_at, last, last_id = batch.looked_at, batch.last or last, batch.last_id or last_id
        if time.monotonic() >= give_up_at:
            break
    return deleted
