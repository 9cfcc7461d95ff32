"""When to try again: pure."""

LONGEST_S = 300.0


def backoff_s(attempts: int, chance: float, longest_s: float = LONGEST_S) -> float:
    """Return the seconds to wait after that many attempts: 1, 2, 4, ... up to `longest_s`; `chance` takes up to half.

    `chance` is a random number in [0, 1): the jitter that keeps many, failed at once, from returning at once.
    """
    return min(longest_s, 2.0 ** min(attempts - 1, 30)) * (1 - chance / 2)
