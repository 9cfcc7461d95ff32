"""The names that the ledger has for one room: those in its statements, and those in log lines."""

from typing import NamedTuple


class LedgerNames(NamedTuple):
    """What stands for `{table}` and the other names in braces in the files of `sql/`. All of it is SQL."""

    table: str
    paused: str  # the table of paused kinds
    begun: str  # the state of an effect that a worker has begun
    done: str  # the state of an effect that has happened
    accepted: str  # the states of effects that have happened, as a list of texts
    begun_at: str  # the column that says since when an effect is in flight, or unknown
    done_at: str  # the column that says when it happened
    reference: str  # the column of the name that the other side gave it
    other_side: str  # an expression that names the other side in a sentence
    own_at_begin: str = ""  # what `begin` sets beside the common columns, with a comma after it; so the next two
    own_at_record: str = ""
    own_at_loss: str = ""  # of `make_unknown`


class LedgerEvents(NamedTuple):
    """The events in log lines, which each room has of its own."""

    unknown: str
    failed: str
    expired: str
    not_written: str
