"""The script of the bell is small, and on its own."""

import re

from project.checkout import CHECKOUT

FOLDER = CHECKOUT / "notifications/web/static/weir/bell"
MOST_BYTES = 6_000


def test_the_script_is_small() -> None:
    """As it is, not compressed."""
    assert (FOLDER / "bell.js").stat().st_size <= MOST_BYTES


def test_the_script_needs_nothing_else() -> None:
    """It imports no library, makes no markup of texts, and runs none."""
    text = (FOLDER / "bell.js").read_text()
    assert re.findall(r"\bimport\b|innerHTML|insertAdjacentHTML|\beval\b|Function\(", text) == []
