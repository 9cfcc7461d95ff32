"""What a claim takes, and how it is lost."""

from collections.abc import Mapping

from weir.conf.texts import kind_routes
from weir.workers.ledger.outcomes import Outcome

ALL_KINDS: Mapping[str, bool] = {kind_routes.OTHERS: True}


class ClaimLost(Exception):
    """This worker does not hold the effect any more; `outcome` is its outcome, if this worker has written one."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        super().__init__()
        self.outcome = outcome


def taking(kinds: Mapping[str, bool]) -> dict[str, object]:
    """Return the parameters of a claim that say which kinds it takes."""
    return {
        "starts": [kind_routes.start(pattern) for pattern in kinds],
        "are_open": [kind_routes.is_open(pattern) for pattern in kinds],
        "are_ours": list(kinds.values()),
    }
