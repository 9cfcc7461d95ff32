"""The demo's page of a web application, on which the bell is."""

from django.urls import NoReverseMatch, reverse


def address(base: str) -> str | None:
    """Return the page's address; None where the project's URLs have none."""
    try:
        return base + reverse("demo:bell")
    except NoReverseMatch:
        return None
