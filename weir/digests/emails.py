"""The kinds of e-mail that tell notifications: a digest of several, and an e-mail about a single one.

Templates `weir/digests/digest_subject.txt`, `digest.txt` and `digest.html` say what a digest says, and `single...` what
the other says; a project's own templates of these names take their place. They get `lines`, and `count`, their number.
"""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from django.utils.text import Truncator

from weir.conf import settings
from weir.notifications import user_keys
from weir.notifications.channels import telling
from weir.notifications.channels.telling import ToldRow
from weir.notifications.models import Notification
from weir.notifications.user_keys import UserKey
from weir.workers.mail.kinds import Content, Draft, register_drafted
from weir.workers.mail.models import Email
from weir.workers.mail.phases import NOT_BEGUN, EmailState
from weir.workers.mail.writing import unsubscribing

DIGEST: Final = "weir.digest"
SINGLE: Final = "weir.notification"
SEPARATOR: Final = " "  # between a kind of notification and a user's key, in a link to unsubscribe
_LONGEST_TITLE: Final = 150  # characters
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OF_LINKS: Final = frozenset({"http", "https", ""})  # schemes; without an origin, a path stays one


class Line(NamedTuple):
    """What an e-mail says of one notification: one line each."""

    title: str
    body: str
    url: str
    kind: str
    created_at: datetime


class _Drafting:
    """Drafts e-mails of one kind; the notifications that they tell are given to them when they are queued."""

    def __init__(self, kind: str, template: str) -> None:
        self._kind = kind
        self._template = template

    def draft(self, email: Email) -> Draft | None:
        """Return what the user has not read yet of what the e-mail is to tell; None if nothing is left."""
        user = _user(email)
        rows = [] if user is None else telling.drafted(email.pk, user)
        if not rows:
            return None
        about = f"{rows[0].kind if self._kind == SINGLE else ''}{SEPARATOR}{user}"
        return Draft(self.content(rows, _unsubscribe_url(self._kind, email.recipient, about)), [row.id for row in rows])

    def content(self, rows: Collection[Notification | ToldRow], unsubscribe_url: str = "") -> Content:
        """Return what an e-mail says about these notifications."""
        lines = [_line(row) for row in rows]
        values: dict[str, Any] = {"lines": lines, "count": len(lines), "unsubscribe_url": unsubscribe_url}
        said = Content.from_templates(f"weir/digests/{self._template}", **values)
        return Content(subject=said.subject, text=said.text, html=said.html, unsubscribe_url=unsubscribe_url)

    def tell(self, email: Email, tells: Any) -> bool:  # noqa: ANN401  what `draft` returned
        user = _user(email)
        return user is not None and telling.tell(email.pk, user, tells)

    def release(self, email_ids: Collection[int], *, is_over: bool) -> None:
        telling.release(email_ids, is_over=is_over, by_digest=self._kind == DIGEST)


_DIGESTS = _Drafting(DIGEST, "digest")
_SINGLES = _Drafting(SINGLE, "single")


@register_drafted(DIGEST, _DIGESTS)
def digest(*, user: str) -> Content:
    """Return what a digest would say now of all that this user has not read."""
    return _DIGESTS.content(_newest(user, telling.MOST_TOLD))


@register_drafted(SINGLE, _SINGLES)
def single(*, user: str) -> Content:
    """Return what an e-mail would say of the newest notification that this user has not read."""
    return _SINGLES.content(_newest(user, 1))


def undecided() -> list[int]:
    """Return the ids of e-mails that may have told something, and of which is not known whether they were accepted."""
    begun = Email.objects.filter(state__in=[EmailState.SENDING, EmailState.UNKNOWN])
    asked = Email.objects.filter(state__in=NOT_BEGUN, ask_until__isnull=False)
    return list((begun | asked).filter(kind__in=[DIGEST, SINGLE]).values_list("pk", flat=True))


def _newest(user: str, most: int) -> list[Notification]:
    return list(Notification.objects.unread().filter(user_id=user_keys.clean(user)).order_by("-pk")[:most])


def _user(email: Email) -> UserKey | None:
    """Return the user whom the e-mail tells; None if the e-mail was forgotten."""
    return user_keys.clean(email.context["user"]) if "user" in email.context else None


def _unsubscribe_url(kind: str, address: str, about: str) -> str:
    """Return the link; none without an origin, and none for a user's key so long that the link would not work."""
    if not settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN or len(about.encode()) > unsubscribing.LONGEST_ABOUT:
        return ""
    return unsubscribing.url(kind, address, about=about)


def _line(row: Notification | ToldRow) -> Line:
    """Return what an e-mail says about the notification: each of its values but the body is one line."""
    title = Truncator(_one_line(row.title)).chars(_LONGEST_TITLE)
    return Line(title, row.body, _link(_one_line(row.url)), row.kind, row.created_at)


def _link(url: str) -> str:
    """Return the link. A path gets the origin at which users unsubscribe; what is no link of the web is left out.

    So one notification with a bad link does not keep an e-mail from being written, and with it all others.
    """
    try:
        link = urljoin(settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN, url) if url else ""
        return link if urlsplit(link).scheme in _OF_LINKS else ""
    except ValueError:  # such as http://[x
        return ""


def _one_line(text: str) -> str:
    """Return the text without line breaks and other control characters, which a subject must not have."""
    return " ".join(_CONTROLS.sub(" ", text).split())
