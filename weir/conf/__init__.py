"""Weir's settings: `from weir.conf import settings`."""

from weir.conf.live import settings
from weir.conf.mistakes import UnreadableSetting

__all__ = ["UnreadableSetting", "settings"]
