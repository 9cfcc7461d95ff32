"""Code that commits by itself: calls that refuse the caller's transaction, and views without one.

Weir's views commit changes that must not be rolled back when the request fails. They read in short transactions of
their own, and some views must answer while PostgreSQL is away. So the views themselves decide what is committed,
whatever a project's ATOMIC_REQUESTS says.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.transaction import TransactionManagementError
from django.urls import URLPattern, URLResolver

View = TypeVar("View", bound=Callable[..., Any])


def is_in_transaction() -> bool:
    """Return whether a statement that is executed now would be committed, or rolled back, with a caller's transaction.

    The transaction of a Django TestCase does not count, just as `atomic(durable=True)` ignores it: code in a test runs
    as if no transaction were open.
    """
    if not connections[DEFAULT_DB_ALIAS].in_atomic_block:
        return False
    try:
        with transaction.atomic(durable=True, savepoint=False):
            return False
    except RuntimeError:
        return True


def is_in_test_case() -> bool:
    """Return whether a Django TestCase will roll back what is executed now, even after a commit within the test."""
    blocks: Any = connections[DEFAULT_DB_ALIAS].atomic_blocks  # the type stubs lack this attribute
    return bool(blocks) and bool(blocks[0]._from_testcase)  # noqa: SLF001  as Django does


def refuse_transaction(what: str) -> None:
    """Raise TransactionManagementError if a transaction is open; the message says that `what` must not run in one."""
    if is_in_transaction():
        raise TransactionManagementError(
            f"{what} must commit by itself: call it outside transaction.atomic(), "
            "for example in transaction.on_commit()."
        )


def commits_itself(view: View) -> View:
    """Exempt this view from Django's transactions for requests, in all databases."""
    for alias in connections:
        transaction.non_atomic_requests(alias)(view)
    return view


def leave_commits_to(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Call `commits_itself` for each view of a URLconf, and of the URLconfs that it includes."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            leave_commits_to(pattern.url_patterns)
        else:
            commits_itself(pattern.callback)
