"""The runs by which each version of one kind meets each version of another kind at least once."""

from collections.abc import Mapping, Sequence
from itertools import product

from tests.matrix.versions import ALL, Versions


def covering_runs(values: Mapping[str, Sequence[str]]) -> list[Versions]:
    """Return runs that have in them every pair that is possible; the same ones for the same values.

    Greedy: the next run is the one with most pairs that no run before it had, the first of equals.
    """
    possible = [run for run in (Versions(*found) for found in product(*(values[kind] for kind in ALL))) if run.fits]
    missing = {pair for run in possible for pair in run.pairs}
    runs: list[Versions] = []
    while missing:
        runs.append(max(possible, key=lambda run: len(missing & run.pairs)))
        missing -= runs[-1].pairs
    return runs
