"""Rounds: two or more sides take turns, so that a change of the machine's speed affects all of them."""

import time
from collections.abc import Callable
from statistics import median

Side = Callable[[], float]  # does one round, and returns its rate


def take_turns(rounds: int, *sides: Side) -> list[tuple[float, ...]]:
    """Let the sides take `rounds` turns each; return their rates, round by round.

    Every round begins with another side, so that no side always runs after the same one.
    """
    rates = []
    for number in range(rounds):
        first = number % len(sides)
        of_round = {place: sides[place]() for place in (*range(first, len(sides)), *range(first))}
        rates.append(tuple(of_round[place] for place in range(len(sides))))
    return rates


def ratio(rounds: list[tuple[float, ...]], ours: int, peer: int) -> float:
    """Return the median of the rounds' ratios of two sides."""
    return median(rates[ours] / rates[peer] for rates in rounds)


def middle(rounds: list[tuple[float, ...]], side: int) -> float:
    """Return the median rate of a side."""
    return median(rates[side] for rates in rounds)


def rate(done: int, work: Callable[[], object]) -> float:
    """Return the rate of work that does `done` units: units a second."""
    began = time.perf_counter()
    work()
    return done / (time.perf_counter() - began)
