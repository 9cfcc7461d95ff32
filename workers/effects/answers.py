"""What the call and the probe of a kind say about an effect."""

from dataclasses import dataclass

LARGEST_RESULT = 16 * 1024  # bytes of JSON: larger data belongs in a table of the application


@dataclass(frozen=True, slots=True)
class Done:
    """The effect has happened. `result` is JSON, and kept; `reference` is the name that the other side gave it."""

    result: object = None
    reference: str = ""


class NotDone(Exception):
    """The effect has certainly not happened: raised by a call, or returned or raised by a probe.

    `retry` says whether another attempt may succeed; it begins after `retry_after_s` seconds at the earliest, of which
    30 days count at most. From a call, this is about the call's own attempt. If the other side says that of the
    idempotency key, and so of earlier attempts, too, `of_all_attempts` says so; without it, an effect that an earlier
    attempt left unknown stays unknown. A probe's answer is always about all attempts.
    """

    def __init__(self, reason: str, *, retry: bool, retry_after_s: float = 0.0, of_all_attempts: bool = False) -> None:
        super().__init__(reason)
        self.retry = retry
        self.retry_after_s = retry_after_s
        self.of_all_attempts = of_all_attempts
