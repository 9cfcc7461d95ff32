"""Several cases in one test, if what they share takes long to make: a failure names its case."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: str) -> Iterator[None]:
    """Make pytest show the name with whatever fails in the block, even if the tested code raises the error."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"The case: {name}")
        raise
