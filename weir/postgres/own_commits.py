"""What commits by itself: calls that refuse the caller's transaction, and views that have none.

Weir's views commit what must not be rolled back with an answer, read in short transactions of their own, and some must
answer where PostgreSQL is away. So they decide themselves what commits, whatever ATOMIC_REQUESTS says of a project's.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.transaction import TransactionManagementError
from django.urls import URLPattern, URLResolver

View = TypeVar("View", bound=Callable[..., Any])


def is_in_transaction() -> bool:
    """Tell whether what is executed now would be committed, or rolled back, with what a caller does.

    That of a Django TestCase does not count: it stands for the database as it is outside of transactions, as it does
    for `atomic(durable=True)`.
    """
    if not connections[DEFAULT_DB_ALIAS].in_atomic_block:
        return False
    try:
        with transaction.atomic(durable=True, savepoint=False):
            return False
    except RuntimeError:
        return True


def is_in_test_case() -> bool:
    """Tell whether a Django TestCase will roll back what is executed now, and what is committed inside of its test."""
    blocks: Any = connections[DEFAULT_DB_ALIAS].atomic_blocks  # whose types lack what Django has for `durable`
    return bool(blocks) and bool(blocks[0]._from_testcase)  # noqa: SLF001  as Django does


def refuse_transaction(what: str) -> None:
    """Raise TransactionManagementError if a transaction is open; its text names `what` must not run in one."""
    if is_in_transaction():
        raise TransactionManagementError(
            f"{what} must commit by itself: call it outside transaction.atomic(), "
            "for example in transaction.on_commit()."
        )


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
