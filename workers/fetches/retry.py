"""When to try again: pure."""

LONGEST_S = 300.0


def backoff_s(attempts: int, chance: float) -> float:
    """Return the seconds to wait after that many attempts: 1, 2, 4, ... up to 300, of which `chance` takes up to half.

    `chance` is a random number in [0, 1): the jitter that keeps many fetches, failed at once, from returning at once.
    """
    return min(LONGEST_S, 2.0 ** min(attempts - 1, 30)) * (1 - chance / 2)
