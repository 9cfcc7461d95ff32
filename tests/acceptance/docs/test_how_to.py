"""The how-to pages, as somebody types them who has read the quickstart, for an installation that grows."""

import pytest

from tests.acceptance.docs import situations
from tests.acceptance.docs.reading import Reader


@pytest.mark.parametrize("page", situations.how_to_pages())
def test_a_page_does_what_it_says(page: str, reader: Reader) -> None:
    """Whatever a reader types or writes down from the page, from its top to its end, works as the page says."""
    reader.read_page(page)
