"""Deltas a second through `counters.add`, compared with bare ZINCRBY, the least that Redis can do.

One process each, over the same number of users; both wait for every answer. For 5,000 users in one call, the peer is a
pipeline.
"""

from itertools import cycle

from benchmarks.figures import Figure
from benchmarks.rounds import middle, rate, ratio, take_turns
from benchmarks.unread import stores
from weir.notifications import counters

ROUNDS = 61  # so many that other work of the machine disturbs only few of them
CALLS = 500
USERS = 1_000
ROUNDS_OF_MANY = 15


def compare() -> list[Figure]:
    """Return the rates and their ratios, for one user and for many."""
    return [*_compare_one(), *_compare_many()]


def _compare_one() -> list[Figure]:
    with stores.bare_redis() as bare:
        user_of_weir, user_of_bare = cycle(range(USERS)), cycle(range(USERS))

        def add() -> None:
            for _ in range(CALLS):
                counters.add({next(user_of_weir): 1})

        def zincrby() -> None:
            for _ in range(CALLS):
                bare.zincrby("bench:deltas", 1, str(next(user_of_bare)))

        add()  # not measured: the creation of the sets and the script
        zincrby()
        rounds = take_turns(ROUNDS, lambda: rate(CALLS, add), lambda: rate(CALLS, zincrby))
        bare.delete("bench:deltas")
    return [
        Figure(name="unread_add", value=middle(rounds, 0), unit="1/s"),
        Figure(name="bare_zincrby", value=middle(rounds, 1), unit="1/s"),
        Figure(name="unread_add_vs_bare_zincrby", value=ratio(rounds, 0, 1), unit="x"),
    ]


def _compare_many() -> list[Figure]:
    deltas = dict.fromkeys(range(counters.AT_ONCE), 1)
    with stores.bare_redis() as bare:

        def pipelined() -> None:
            with bare.pipeline(transaction=False) as pipeline:
                for user_id, delta in deltas.items():
                    pipeline.zincrby("bench:deltas", delta, str(user_id))
                pipeline.execute()

        counters.add(deltas)  # as above
        pipelined()
        rounds = take_turns(
            ROUNDS_OF_MANY,
            lambda: rate(len(deltas), lambda: counters.add(deltas)),
            lambda: rate(len(deltas), pipelined),
        )
        bare.delete("bench:deltas")
    return [
        Figure(name="unread_add_of_many", value=middle(rounds, 0), unit="1/s"),
        Figure(name="pipelined_zincrby", value=middle(rounds, 1), unit="1/s"),
        Figure(name="unread_add_of_many_vs_pipelined_zincrby", value=ratio(rounds, 0, 1), unit="x"),
    ]
