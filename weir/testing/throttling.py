"""throttled_hosts: `throttle` that does not wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from weir.ratelimit import clock, slots
from weir.ratelimit.held.held_run import TakenSlot
from weir.ratelimit.held.steps import Call, Steps
from weir.ratelimit.slots import ReservedSlot, SlotTooFar
from weir.ratelimit.throttle import waited_by


@contextmanager
def throttled_hosts() -> Iterator[list[str]]:
    """Let `throttle`, `athrottle` and throttled tasks go on without waiting; yields the hosts that they name.

    No slot is reserved: the rate of a site has no effect, and the id of each slot is 0. The usual errors are raised:
    TransactionManagementError in a transaction, and SlotTooFar if the site is paused or backed off for longer than
    `max_wait`.
    """
    hosts: list[str] = []
    with waited_by(partial(_Instant, hosts.append)):
        yield hosts


class _Instant:
    """Takes the place of a caller that waits for its slot, without waiting."""

    def __init__(self, note: Callable[[str], None], host: str, latest: float) -> None:
        self._note = note
        self._host = host
        self._latest = latest
        self.taken = TakenSlot(ReservedSlot(id=0, start_at=clock.now()))

    def start(self) -> Steps:
        yield Call(self._check)

    def end(self, at: float) -> Steps:  # noqa: ARG002  the signature of a caller with a slot
        yield from ()

    def _check(self) -> None:
        wait_s = slots.estimate(self._host)
        if wait_s > max(0.0, self._latest - clock.now()):
            raise SlotTooFar(self._host, wait_s)
        self._note(self._host)
