"""The exponential backoff between attempts: a pure function."""

LONGEST_S = 300.0


def backoff_s(attempts: int, chance: float, longest_s: float = LONGEST_S) -> float:
    """Return the seconds to wait after that many attempts: 1, 2, 4, ... up to `longest_s`, minus up to half of these.

    `chance` is a random number in [0, 1), from which the jitter is computed: attempts that failed at the same time are
    not repeated at the same time.
    """
    return min(longest_s, 2.0 ** min(attempts - 1, 30)) * (1 - chance / 2)
