"""Writes the headers of an e-mail: Weir's own, and those that a kind of e-mail may add."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import format_datetime

from django.utils import timezone

from weir.workers.mail import addresses
from weir.workers.mail.headers import lines, words
from weir.workers.mail.headers.lines import HeaderValue
from weir.workers.mail.headers.texts import CannotBeWritten, refuse_controls
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email
from weir.workers.mail.writing import unsubscribing

_NAME = re.compile(r"[!-9;-~]{1,76}")  # RFC 5322, 3.6.8; a longer name would leave no room on its line
# Headers that a kind of e-mail may not set: Weir writes them; Cc and Bcc would name recipients without an e-mail's row.
_OURS = frozenset({"to", "cc", "bcc", "subject", "date", "message-id", "mime-version", "auto-submitted", "return-path"})
_OURS_BEGIN = ("content-", "resent-")
_OF_UNSUBSCRIBING = frozenset({"list-unsubscribe", "list-unsubscribe-post"})
_OF_ONE_ADDRESS = frozenset({"from", "sender"})
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{3,250}>")  # three of the longest fit into _LONGEST_REFERENCES
_LONGEST_REFERENCES = 998  # characters, including the header's name (RFC 5537, 3.4.4)
_HTTPS = re.compile(  # RFC 3986
    r"https://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d+)?(?:[/?#](?:[\w.~:/?#\[\]@!$&'()*+,;=-]|%[0-9a-f]{2})*)?",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_URL = 900


def of(email: Email, recipient: str, content: Content) -> Iterator[tuple[str, HeaderValue]]:
    """Yield the names and values of the headers, as they are transmitted. Raises CannotBeWritten."""
    own = _own(content.headers)
    subject = str(content.subject)  # str() translates a lazy text
    refuse_controls(subject, "the subject")
    if "from" not in own:
        yield "From", lines.mailboxes("From", [addresses.sender()])
    yield "Subject", lines.text("Subject", subject)
    yield "Date", lines.text("Date", format_datetime(_date(email)))
    yield "Message-ID", lines.structured("Message-ID", email.message_id)
    yield "Auto-Submitted", HeaderValue("auto-generated")  # RFC 3834: asks automatic responders not to answer
    if content.unsubscribe and content.unsubscribe_url:
        raise CannotBeWritten("A kind sets unsubscribe, or an unsubscribe_url of its own, and not both.")
    if url := unsubscribing.url(email.kind, recipient) if content.unsubscribe else content.unsubscribe_url:
        yield from _unsubscribing(url, own)
    for lower, name in own.items():
        yield name, _written(lower, name, str(content.headers[name]))
    refuse_controls(email.recipient_name, "the recipient's name")
    yield "To", lines.mailboxes("To", [(email.recipient_name, recipient)])


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the kind's own headers, by name in lower case. Raises CannotBeWritten."""
    own: dict[str, str] = {}
    for name in headers:
        lower = name.lower()
        if lower in _OURS or lower.startswith(_OURS_BEGIN) or not _NAME.fullmatch(name):
            raise CannotBeWritten(f"A kind of e-mail cannot set the header {name!r}.")
        if lower in own:
            raise CannotBeWritten(f"A kind of e-mail has set the header {name!r} twice.")
        own[lower] = name
    return own


def _written(lower: str, name: str, value: str) -> HeaderValue:
    refuse_controls(value, f"the header {name}")
    return _WAYS.get(lower, lines.structured if lower.startswith("list-") else lines.text)(name, value)


def _mailboxes(name: str, value: str) -> HeaderValue:
    is_list = name.lower() not in _OF_ONE_ADDRESS
    try:
        return lines.mailboxes(name, addresses.split_list(value) if is_list else [addresses.split(value)])
    except CannotBeWritten as error:
        raise CannotBeWritten(f"The header {name}: {error}") from error


def _list_id(name: str, value: str) -> HeaderValue:
    """Return a header with the id of a mailing list; a name may precede the id (RFC 2919)."""
    called, _, identity = value.strip().removesuffix(">").rpartition("<")
    if not called or not value.strip().endswith(">"):
        return lines.structured(name, value)
    lines.structured(name, identity)  # raises CannotBeWritten for letters that only a name may have
    return lines.mailboxes(name, [(called.strip().strip('"'), identity)])


def _message_ids(name: str, value: str) -> HeaderValue:
    """Return a header with the Message-IDs in the value. If they are too many, keep the first and the last ones.

    Mail programs do the same. In an answer to a customer, the Message-IDs come from the customer's mail program;
    everything else in such a header means nothing (RFC 5322, 4.5.4).
    """
    found = [each for each in _MESSAGE_ID.findall(value) if "@" in each and not words.has_one(each)]
    if not found:
        raise CannotBeWritten(f"The header {name} has Message-IDs, such as <17@example.com>, but is {value!r}.")
    first, *others = found
    kept: list[str] = []
    left = _LONGEST_REFERENCES - len(f"{name}: {first}")
    for each in reversed(others):
        left -= len(each) + 1
        if left < 0:
            break
        kept.append(each)
    return lines.structured(name, " ".join([first, *reversed(kept)]))


def _unsubscribing(url: str, own: Mapping[str, str]) -> Iterator[tuple[str, HeaderValue]]:
    """Yield the headers for which mail programs show a button to unsubscribe (RFC 8058)."""
    refuse_controls(url, "the header List-Unsubscribe")
    if found := _OF_UNSUBSCRIBING & own.keys():
        raise CannotBeWritten(f"An unsubscribe_url makes a header {own[min(found)]}: leave out the kind's own.")
    if not _HTTPS.fullmatch(url) or len(url) > _LONGEST_URL or words.has_one(url):
        raise CannotBeWritten(
            f"An unsubscribe_url is an https URL of {_LONGEST_URL} ASCII characters at most (RFC 8058), not {url!r}."
        )
    yield "List-Unsubscribe", lines.structured("List-Unsubscribe", f"<{url}>")
    yield "List-Unsubscribe-Post", HeaderValue("List-Unsubscribe=One-Click")


def _date(email: Email) -> datetime:
    """Return when the e-mail will be sent, as far as that is known: a date of last week would look strange."""
    now = timezone.now()
    return max(now, email.next_attempt_at) if isinstance(email.next_attempt_at, datetime) else now  # else Now()


# The functions for headers that are not free text. Other headers List-* are structured, and may not have a name.
_WAYS: dict[str, Callable[[str, str], HeaderValue]] = {
    "from": _mailboxes,
    "sender": _mailboxes,
    "reply-to": _mailboxes,
    "errors-to": _mailboxes,
    "disposition-notification-to": _mailboxes,
    "return-receipt-to": _mailboxes,
    "mail-followup-to": _mailboxes,
    "mail-reply-to": _mailboxes,
    "references": _message_ids,
    "in-reply-to": _message_ids,
    "list-id": _list_id,
}
