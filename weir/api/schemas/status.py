"""The API's data about the state of everything."""

from datetime import datetime

from weir.api.schemas.values import Answer


class NeedsAPerson(Answer):
    """Something that needs somebody."""

    text: str
    next_step: str


class Process(Answer):
    """A process that is known."""

    kind: str
    name: str
    host: str
    pid: int
    version: str
    state: str
    holds: int
    started_at: datetime
    turned_at: datetime
    silent_s: float


class Numbers(Answer):
    """How much there is of everything; 10,001 means more. Ages are null where there is nothing."""

    queued: int
    reserved: int
    running: int
    done: int
    done_or_more: bool
    failed: int
    cancelled: int
    ended_per_s: float
    oldest_due_s: float | None
    sites: int
    paused: int
    backed_off: int
    resting: int
    unreachable: int
    stalled: int
    halted: int
    doubts: int
    trusted: bool | None
    flushed_s: float | None
    pending: int
    sending: int
    unknown: int
    oldest_pending_s: float | None
    oldest_unknown_s: float | None
    sent: int
    not_sent: int
    failing: int | None
    failing_of: int | None
    failing_kind: str | None
    failing_reply: str | None
    closed_because: str | None
    recovered_at: datetime | None


class Status(Answer):
    """What the overview shows.

    `done`, `failed` and `cancelled` are those of the last hour; `ended_per_s` is how many ended a second, in the last
    minute.
    """

    now: datetime
    numbers: Numbers
    messages: dict[str, int]
    broker_error: str
    redis_error: str
    processes: list[Process]
    problems: list[NeedsAPerson]
