"""What a recovery (`weir.workers.recovery.signals`) does to notifications: it distrusts numbers, and adopts read marks.

Each of the two may be done twice, and raises database errors, after which the recovery begins anew.
"""

from collections.abc import Mapping
from typing import Any

from weir.notifications import reconcile
from weir.notifications.inbox import read_marks
from weir.notifications.models import Notification
from weir.workers.recovery.signals import cluster_changed, postgresql_went_back


def connect() -> None:
    """Connect the receivers of a recovery's signals."""
    postgresql_went_back.connect(_distrust, dispatch_uid="weir.notifications")
    cluster_changed.connect(_adopt, dispatch_uid="weir.notifications")


def _distrust(**_signal: Any) -> None:
    reconcile.distrust()


def _adopt(first_ids: Mapping[str, int], **_signal: Any) -> None:
    """Adopt read marks and notifications that the former cluster wrote: ids of this cluster begin at `first_ids`."""
    read_marks.adopt(first_ids[Notification._meta.db_table])  # noqa: SLF001  documented
