"""Several cases in one test, where what they share takes long to make: a failure says of which case it is."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: str) -> Iterator[None]:
    """Have pytest show the name with whatever fails in the block, also where it is an error of what is tested."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"The case: {name}")
        raise
