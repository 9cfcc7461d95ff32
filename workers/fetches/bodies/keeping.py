"""How bodies are kept: from which size on once for all fetches that have them, and for how long."""

from typing import Final

from weir.conf import settings

# Bytes: a shorter body is kept with its fetch. For one of 2 KB, two rows and two entries of indexes, at random places,
# take half as much time again to store as one row; for one of 50 KB, no more.
ONCE_FROM: Final = 4_096
# Seconds after the last turn of the purge of bodies, for which bodies are kept once. A new beat sends it, after all
# workers of the version before have ended: those could not read such bodies.
KEEPING_S: Final = 300.0


def body_retention_s() -> float:
    """Return for how many seconds after its end a fetch has its body."""
    return min(settings.WEIR_FETCH_BODY_RETENTION or settings.WEIR_FETCH_RETENTION, settings.WEIR_FETCH_RETENTION)
