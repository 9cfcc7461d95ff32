"""Views that decide themselves what commits, whatever ATOMIC_REQUESTS says of a project's own.

Weir's views commit what must not be rolled back with an answer, read in short transactions of their own, and some must
answer where PostgreSQL is away.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.db import connections, transaction
from django.urls import URLPattern, URLResolver

View = TypeVar("View", bound=Callable[..., Any])


def commits_itself(view: View) -> View:
    """Have Django begin no transaction for this view, in any database."""
    for alias in connections:
        transaction.non_atomic_requests(alias)(view)
    return view


def leave_commits_to(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Do so for each view of a URLconf, also of those that it includes."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            leave_commits_to(pattern.url_patterns)
        else:
            commits_itself(pattern.callback)
