"""Deltas a second through `counters.add`, one at a time, compared with bare ZINCRBY, the least that Redis can do.

One process each, over the same number of users; both wait for every answer.
"""

from itertools import cycle

from benchmarks.figures import Figure
from benchmarks.rounds import middle, rate, ratio, take_turns
from benchmarks.unread import stores
from notifications import counters

ROUNDS = 61  # so that what else the machine does disturbs few of them
CALLS = 500
USERS = 1_000


def compare() -> list[Figure]:
    """Return both rates and their ratio."""
    with stores.bare_redis() as bare:
        user_of_weir, user_of_bare = cycle(range(USERS)), cycle(range(USERS))

        def add() -> None:
            for _ in range(CALLS):
                counters.add({next(user_of_weir): 1})

        def zincrby() -> None:
            for _ in range(CALLS):
                bare.zincrby("bench:deltas", 1, str(next(user_of_bare)))

        add()  # the creation of the sets and the script is not measured
        zincrby()
        rounds = take_turns(ROUNDS, lambda: rate(CALLS, add), lambda: rate(CALLS, zincrby))
        bare.delete("bench:deltas")
    return [
        Figure(name="unread_add", value=middle(rounds, 0), unit="1/s"),
        Figure(name="bare_zincrby", value=middle(rounds, 1), unit="1/s"),
        Figure(name="unread_add_vs_bare_zincrby", value=ratio(rounds, 0, 1), unit="x"),
    ]
