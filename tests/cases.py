"""Several cases in one test: a failure names its case."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any

import pytest

Set = type(pytest.param())  # of values, with an id


@contextmanager
def case(name: str) -> Iterator[None]:
    """Make pytest show the name with whatever fails in the block, even if the tested code raises the error."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"The case: {name}")
        raise


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Callable[[Any], str] | Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let one test be called for each case; the arguments are those of `pytest.mark.parametrize`.

    This is for short tests: it takes longer to find thousands of cases, to send each to a process and to report it than
    to run them. All cases are called, whatever fails; a failure names its case.
    """
    its_names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = list(cases)
    given_ids = [None] * len(given) if ids is None or callable(ids) else list(ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def loop(**arguments: Any) -> None:
            failures: list[BaseException] = []
            for one, its_id in zip(given, given_ids, strict=True):
                values = one.values if isinstance(one, Set) else (one,) if len(its_names) == 1 else one
                try:
                    test(**arguments, **dict(zip(its_names, values, strict=True)))
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001  raised below
                    name = one.id if isinstance(one, Set) else its_id
                    shown = map(ids if callable(ids) else repr, values)
                    failure.add_note(f"The case: {name or ', '.join(map(str, shown))}")
                    failures.append(failure)
            if len(failures) > 1:
                raise BaseExceptionGroup(f"{len(failures)} of {len(given)} cases fail", failures)
            for only in failures:
                raise only

        left = [each for each in signature(test).parameters.values() if each.name not in its_names]
        loop.__signature__ = signature(test).replace(parameters=left)  # type: ignore[attr-defined]
        return loop

    return decorate
