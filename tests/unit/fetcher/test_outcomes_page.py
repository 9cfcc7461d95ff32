"""The page of outcomes says what the tests see."""

from tests.integration.fetcher import situations

REMEDY = "run `python -m tests.integration.fetcher.situations` and commit what it wrote"


def test_the_page_is_what_the_situations_make() -> None:
    """Its lists are not edited by hand, nor forgotten."""
    page = situations.PAGE.read_text()
    assert situations.BEGIN in page
    assert situations.END in page
    assert situations.page(page) == page, f"{situations.PAGE.name} is out of date: {REMEDY}"
