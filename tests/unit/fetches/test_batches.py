"""Whole runs are packed into messages of about a hundred fetches."""

from itertools import chain

from tests.cases import for_each
from weir.workers.fetches.dispatch import batches


@for_each(
    ("sizes", "packed"),
    [
        ([], []),
        ([0, 0], []),
        ([1], [1]),
        ([99, 1, 5], [100, 5]),
        ([99, 2, 5], [101, 5]),
        ([500], [500]),
        ([50, 0, 49, 500, 1], [599, 1]),
        ([100, 100], [100, 100]),
    ],
)
def test_whole_runs_are_packed_into_messages_of_about_a_hundred(sizes: list[int], packed: list[int]) -> None:
    """A message is full as soon as it has a hundred fetches; the run that filled it is in it whole."""
    ids = iter(range(10_000))
    runs = [[next(ids) for _ in range(size)] for size in sizes]
    messages = list(batches(runs))
    assert [len(message) for message in messages] == packed
    assert list(chain(*messages)) == list(chain(*runs))
