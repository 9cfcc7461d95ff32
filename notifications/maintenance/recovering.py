"""What a recovery does to notifications (`weir.workers.recovery.signals`): numbers are not trusted, read marks adopted.

Each may be done twice, and raises database errors, for which the recovery begins anew.
"""

from collections.abc import Mapping
from typing import Any

from weir.notifications import reconcile
from weir.notifications.inbox import read_marks
from weir.notifications.models import Notification
from weir.workers.recovery.signals import cluster_changed, postgresql_went_back


def connect() -> None:
    """Be told by a recovery."""
    postgresql_went_back.connect(_distrust, dispatch_uid="weir.notifications")
    cluster_changed.connect(_adopt, dispatch_uid="weir.notifications")


def _distrust(**_signal: Any) -> None:
    reconcile.distrust()


def _adopt(first_ids: Mapping[str, int], **_signal: Any) -> None:
    """Have read marks go by the rows that this cluster writes, whose ids begin here."""
    read_marks.adopt(first_ids[Notification._meta.db_table])  # noqa: SLF001  documented
