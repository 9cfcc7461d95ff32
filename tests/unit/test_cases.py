"""What fails in a block of a case has its name: an assertion, an error of what is tested, and a wait in vain."""

import pytest

from tests.cases import case
from tests.waiting import TooLateError


@pytest.mark.parametrize("failure", [AssertionError, LookupError, TooLateError])
def test_what_fails_has_the_name_of_its_case(failure: type[BaseException]) -> None:
    """Of that one alone: the case before it passed."""
    with case("red"):
        pass
    with pytest.raises(failure) as raised, case("blue"):
        raise failure
    assert raised.value.__notes__ == ["The case: blue"]
