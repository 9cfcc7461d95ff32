"""What fails has the name of its case: an assertion, an error of what is tested, and a wait in vain."""

from inspect import signature

import pytest

from tests.cases import case, for_each
from tests.waiting import TooLateError


@pytest.mark.parametrize("failure", [AssertionError, LookupError, TooLateError])
def test_what_fails_has_the_name_of_its_case(failure: type[BaseException]) -> None:
    """Of that one alone: the case before it passed."""
    with case("red"):
        pass
    with pytest.raises(failure) as raised, case("blue"):
        raise failure
    assert raised.value.__notes__ == ["The case: blue"]


def test_all_cases_are_called_and_those_that_fail_are_named() -> None:
    called = []

    @for_each("count, name", [(1, "one"), pytest.param(2, "two", id="the second"), (3, "three"), (4, "four")])
    @for_each("twice", [True, False], ids=["doubled", "not doubled"])
    def test(count: int, name: str, twice: bool, fixture: str) -> None:
        called.append((count, name, twice, fixture))
        assert count != 1 or not twice
        if count == 2:
            raise LookupError

    assert [*signature(test).parameters] == ["fixture"]
    with pytest.raises(ExceptionGroup, match="2 of 4 cases fail") as raised:
        test(fixture="made once")
    assert called == [
        (count, name, twice, "made once")
        for count, name in [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
        for twice in (True, False)
    ]
    first, second = raised.value.exceptions
    assert first.__notes__ == ["The case: doubled", "The case: 1, 'one'"]
    assert isinstance(second, ExceptionGroup)
    assert second.__notes__ == ["The case: the second"]
    assert [each.__notes__ for each in second.exceptions] == [["The case: doubled"], ["The case: not doubled"]]


def test_what_pytest_calls_a_failure_is_one() -> None:
    @for_each("error", [ValueError, LookupError])
    def test(error: type[Exception]) -> None:
        with pytest.raises(error):
            pass

    with pytest.raises(BaseExceptionGroup, match="2 of 2 cases fail"):
        test()
