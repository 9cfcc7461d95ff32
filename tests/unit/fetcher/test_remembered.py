"""What is remembered: the newest entries."""

from weir.workers.fetches.fetcher.remembered import Remembered


def test_the_entries_that_were_noted_last_are_remembered() -> None:
    """To note one again makes it the newest."""
    known: Remembered[str, int] = Remembered(3)
    for number, key in enumerate(["a", "b", "c", "a", "d"]):
        known.note(key, number)
    assert list(known.items()) == [("c", 2), ("a", 3), ("d", 4)]
