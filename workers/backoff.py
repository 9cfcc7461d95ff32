"""The exponential backoff between attempts: a pure function."""

LONGEST_S = 300.0


def backoff_s(attempts: int, chance: float, longest_s: float = LONGEST_S) -> float:
    """Return the seconds to wait after that many attempts: 1, 2, 4, ... up to `longest_s`, less up to half of it.

    `chance` is a random number in [0, 1), for the jitter: attempts that failed together are not repeated together.
    """
    return min(longest_s, 2.0 ** min(attempts - 1, 30)) * (1 - chance / 2)
