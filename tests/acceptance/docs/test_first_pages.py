"""README, quickstart and tutorial, as a newcomer types them: what somebody does who has never seen Weir."""

import pytest

from tests.acceptance.docs import situations
from tests.acceptance.docs.reading import Reader

INSTALLS = "make demo ARGS=--help"  # less than `make install`, which `make test` itself begins with


@pytest.mark.parametrize("page", situations.FIRST_PAGES)
def test_a_page_does_what_it_says(page: str, reader: Reader) -> None:
    """Whatever a reader types or writes down from the page, from its top to its end, works as the page says."""
    reader.read_page(page)
