"""The demo's page of a web application, which shows the bell."""

from django.urls import NoReverseMatch, reverse


def address(base: str) -> str | None:
    """Return the page's address; None if the project's URLs have no such page."""
    try:
        return base + reverse("demo:bell")
    except NoReverseMatch:
        return None
