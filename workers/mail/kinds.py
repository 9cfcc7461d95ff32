"""Kinds of e-mail: whom an e-mail is for and what it says, found by the kind and the key in its row.

Each process imports the module `emails.py` of every installed app when it starts. There, a kind of e-mail is one class:

    @kinds.register
    class OrderShipped(kinds.Draft):
        kind = "order.shipped"
        ...

`outbox.add("order.shipped", str(order.pk))` queues the e-mail about one order.
"""

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeVar

import structlog
from django.db import InterfaceError, OperationalError

from workers.mail.models import Email

log = structlog.get_logger(__name__)


class UnknownKind(LookupError):
    """No installed app has registered this kind of e-mail; the message says what to do."""


class NotFound(LookupError):
    """What the e-mail is about does not exist any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What an e-mail says. The text and the HTML say the same."""

    subject: str
    text: str
    html: str


class Draft(ABC):
    """One e-mail before it is written. A subclass is a kind of e-mail; its objects are made by `find` only."""

    kind: ClassVar[str]
    label: str  # what people call the thing that it is about, such as the order's number
    recipient: str  # an address, which need not be valid

    @classmethod
    @abstractmethod
    def find(cls, keys: Collection[str]) -> Mapping[str, Self]:
        """Return the drafts of these keys, in one query; a key that there is nothing for is left out."""

    @classmethod
    @abstractmethod
    def search(cls, beginning: str) -> Iterable[str]:
        """Return the keys whose label begins so: for the admin's search. A queryset of them becomes a subquery."""

    @abstractmethod
    def content(self) -> Content:
        """Render what it says."""


Kind = TypeVar("Kind", bound=type[Draft])
_NAME = re.compile(r"\w+(\.\w+)*", re.ASCII)  # which a Message-ID can begin with
_kinds: dict[str, type[Draft]] = {}


class Summary(NamedTuple):
    """What lists say about an e-mail."""

    label: str
    recipient: str


def register(kind: Kind) -> Kind:
    """Make a kind of e-mail known, under its name, such as order.shipped. Raises ValueError if it is bad, or taken."""
    if not _NAME.fullmatch(kind.kind):
        raise ValueError(f"{kind.kind!r} cannot name a kind of e-mail: write letters, digits and dots: order.shipped.")
    if kind.kind in _kinds:
        raise ValueError(f"There are two kinds of e-mail {kind.kind!r}: {_kinds[kind.kind]!r} and {kind!r}.")
    _kinds[kind.kind] = kind
    return kind


def get(name: str) -> type[Draft]:
    """Return the kind of this name. Raises UnknownKind."""
    try:
        return _kinds[name]
    except KeyError:
        raise UnknownKind(
            f"There is no kind of e-mail {name!r}: add the app whose emails.py registers it to INSTALLED_APPS, "
            "restart the mailers, and have the e-mail sent again."
        ) from None


def find(email: Email) -> Draft:
    """Return the e-mail's draft. Raises UnknownKind, NotFound, and what the kind raises."""
    found = get(email.kind).find([email.key])
    if email.key not in found:
        raise NotFound(f"What the e-mail is about does not exist: {email.kind} {email.key!r}.")
    return found[email.key]


def find_all(emails: Iterable[Email]) -> dict[int, Draft]:
    """Return drafts by the ids of their e-mails, in one query for each kind.

    An e-mail that `find` would raise for is left out. If a kind raises, all e-mails of this kind are left out; but
    django.db's OperationalError and InterfaceError are raised: the database is to blame.
    """
    found: dict[int, Draft] = {}
    for name, alike in _by_kind(emails).items():
        try:
            drafts = get(name).find([email.key for email in alike])
            found |= {email.pk: drafts[email.key] for email in alike if email.key in drafts}
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001  a kind is an app's code, which may raise anything
            log.warning("email_kind_failed", kind=name, error=f"{type(error).__name__}: {error}")
    return found


def search(beginning: str) -> dict[str, Iterable[str]]:
    """Return, for each kind, the keys whose label begins so."""
    return {name: kind.search(beginning) for name, kind in _kinds.items()}


def summary(email: Email, draft: Draft | None) -> Summary:
    """Return what lists say about the e-mail; without a draft, its key."""
    return Summary(draft.label, draft.recipient) if draft else Summary(email.key, "")


def summaries(emails: Collection[Email]) -> dict[int, Summary]:
    """Return what lists say about these e-mails, by their ids, in one query for each kind."""
    drafts = find_all(emails)
    return {email.pk: summary(email, drafts.get(email.pk)) for email in emails}


def _by_kind(emails: Iterable[Email]) -> Mapping[str, list[Email]]:
    alike: defaultdict[str, list[Email]] = defaultdict(list)
    for email in emails:
        alike[email.kind].append(email)
    return alike
