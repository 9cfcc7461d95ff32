"""Cancelling: web code or an operator takes back a fetch that has not started.

from weir import cancel_fetch
cancel_fetch(fetch.pk)
"""

from collections.abc import Callable

from django.db import transaction

from weir.postgres import own_commits
from weir.postgres.statements import Statement
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.on_done.calls import COLUMNS, Ended, call_on_done

CANCEL = Statement("cancel", commits=False)
LOCK_UNFINISHED = Statement("lock_unfinished", commits=False)


def cancel(fetch_id: int, *, note: Callable[[], object] | None = None) -> bool:
    """Cancel a fetch; its slot goes to the next fetch of its site. `note` is called in the transaction that cancels it.

    Returns False when it is too late: in the last half second before the start (CONFIRMED_FOR_S), and afterwards.
    Commits by itself; raises TransactionManagementError inside a transaction.
    """
    own_commits.refuse_transaction("cancel_fetch")
    with transaction.atomic(durable=True):
        is_cancelled = bool(LOCK_UNFINISHED(fetch=fetch_id) and CANCEL(fetch=fetch_id, confirmed_for=CONFIRMED_FOR_S))
        if is_cancelled and note:
            note()
    if not is_cancelled:
        return False
    call_on_done(map(Ended._make, Fetch.objects.filter(pk=fetch_id).exclude(on_done="").values_list(*COLUMNS)))
    return True
