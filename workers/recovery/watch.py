"""Each process checks, with its heartbeats, whether PostgreSQL still has the history that Weir knows."""

import os
import threading

from django.db import Error, connection

from weir.logs.loggers import get_logger
from weir.postgres.timeline import gate
from weir.workers.recovery import recovering, stepping
from weir.workers.recovery.verdict import verdict

log = get_logger(__name__)

_settling = threading.Lock()


def _begin_anew() -> None:
    global _settling  # noqa: PLW0603  one for each process
    _settling = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)  # a thread that settles exists only in the parent


def look(who: str) -> None:
    """Check whether PostgreSQL has the known history, and its clock was not stepped; if not, settle that in a thread.

    `who` is the name of this process. Raises database errors.
    """
    seen = gate.look()
    if gate.step_s() or not seen.is_known:
        settle_in_thread(who)


def settle_in_thread(who: str = "a process that was refused") -> None:
    """Run `settle` in a thread, unless a thread of this process already does."""
    if _settling.acquire(blocking=False):
        try:
            threading.Thread(target=_settle_and_release, args=(who,), name="recovery", daemon=True).start()
        except RuntimeError as error:  # the next heartbeat begins again
            _settling.release()
            log.warning("recovery_waits_for_thread", error=str(error))


def settle(who: str) -> None:
    """Find out whether PostgreSQL has forgotten commits, or its clock was stepped, and recover from that.

    Does nothing if another process already does.
    """
    gate.exchange()  # before `look`: a generation that another process has made since then proves no loss
    seen = gate.look()
    step_s = gate.step_s()
    if seen.is_known and not step_s:
        return
    why = "" if seen.closed_because else verdict(seen)
    if step_s and not why and not seen.closed_because:
        closed = gate.close(f"PostgreSQL's clock was stepped by {step_s:+.1f} s.", seen, step_s)
    else:
        closed = gate.close(why, seen)
    if closed is None:
        return
    if closed.step_s is not None:
        log.error("postgresql_clock_stepped", reason=closed.closed_because)
        stepping.settle()
    elif closed.closed_because:
        log.error("postgresql_went_back", reason=closed.closed_because)
        recovering.recover(closed.closed_because, seen, who)
    else:
        gate.open_gate(seen, went_back=False)
        log.warning("postgresql_promoted", timeline=seen.actual_timeline)


def _settle_and_release(who: str) -> None:
    try:
        settle(who)
    except Error as error:
        log.warning("recovery_waits_for_database", error=str(error))
    except Exception:
        log.exception("recovery_failed")  # when the lease is over, a heartbeat tries again
    finally:
        connection.close()
        _settling.release()
