"""Decides whether PostgreSQL has forgotten commits. The function is pure."""

from weir.postgres.timeline.seen import Seen


def verdict(seen: Seen) -> str:
    """Return in one sentence why PostgreSQL may have forgotten what it granted; "" if it certainly has not.

    After a promotion, nothing is certain without a witness (`seen.known` is 0). With a witness, a standby for which
    commits waited has all commits when it is promoted.
    """
    at = f"{seen.numbered_at:%Y-%m-%d %H:%M:%S} UTC"
    if seen.is_copy:
        return f"This database is a copy of another one, made after {at}."
    if seen.generation < seen.known:
        return f"PostgreSQL has forgotten what was committed after {at}: it was restored, or a standby was promoted."
    if seen.timeline == seen.actual_timeline:
        return ""
    if not seen.known:
        return f"PostgreSQL was promoted or restored, and nothing is known of what it committed after {at}."
    if not seen.is_synchronous:
        return f"A standby was promoted for which commits did not wait: the last ones, after {at}, may be missing."
    return ""
