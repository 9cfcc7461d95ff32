"""Following: a fetch that waits for what became of its effect ends when that is known."""

from typing import Final

from weir.postgres.statements import Statement
from weir.workers.fetches.on_done.calls import Ended, call_on_done

MOST: Final = 1_000

END_AWAITING = Statement("end_awaiting", row=Ended, commits=True)


def end_awaiting() -> int:
    """End the fetches whose effects have ended without an answer; returns how many. Safe to run twice or together."""
    ended = END_AWAITING(most=MOST)
    call_on_done(each for each in ended if each.on_done)
    return len(ended)
