"""All tests may make PostgreSQL's history wrong."""

import pytest


@pytest.fixture(autouse=True)
def _known_again(known_again: None) -> None:
    """Let it be right again after each test."""
