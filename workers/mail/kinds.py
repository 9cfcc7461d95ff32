"""Registers kinds of e-mail: functions that return what an e-mail says, given its arguments.

Each process imports the module `emails.py` of every installed app when it starts. In this module, a kind of e-mail is
one function, which returns what one e-mail says:

    @email_kind("order.shipped")
    def order_shipped(*, order_id: int) -> EmailContent:
        return EmailContent.from_templates("orders/shipped", order=Order.objects.get(pk=order_id))

`send_once("order.shipped", "17", to="kim@example.com", context={"order_id": 17})` queues one e-mail of this kind.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import signature
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from django.template import Context, TemplateDoesNotExist
from django.template.backends.django import Template as DjangoTemplate
from django.template.loader import get_template, render_to_string

from weir.conf.texts.suggestions import did_you_mean
from weir.workers.mail.headers.texts import CannotBeWritten
from weir.workers.mail.models import Email


class UnknownKind(LookupError):
    """No app has registered this kind; the message says what to do."""


class EmailAttachment(NamedTuple):
    """A file that is sent along."""

    name: str
    content: bytes
    content_type: str = "application/octet-stream"  # may have parameters: text/calendar; method=REQUEST
    content_id: str = ""  # lets the HTML show the file: <img src="cid:CONTENT_ID">


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What an e-mail says. The text and the HTML say the same.

    `headers` may have Reply-To, or From with another name and address than DEFAULT_FROM_EMAIL, to which bounces still
    go. With `unsubscribe`, mail programs show a button by which the recipient gets no more e-mails of this kind, at
    the origin WEIR_MAIL_UNSUBSCRIBE_ORIGIN (RFC 8058). `unsubscribe_url` is a URL of your own in its place: an https
    URL that accepts a POST.
    """

    subject: str
    text: str
    html: str = ""
    attachments: Sequence[EmailAttachment] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    unsubscribe_url: str = ""
    unsubscribe: bool = False

    @classmethod
    def from_templates(cls, name: str, /, **values: object) -> Self:
        """Render NAME_subject.txt, NAME.txt and, if there is one, NAME.html, with these values.

        Values are escaped in the HTML only. Raises TemplateDoesNotExist, and any error of a template.
        """
        html = ""
        try:
            html = render_to_string(f"{name}.html", values)
        except TemplateDoesNotExist as error:
            if str(error) != f"{name}.html":  # the HTML template includes a missing one
                raise
        return cls(
            subject=_text(f"{name}_subject.txt", values).rstrip("\n"),
            text=_text(f"{name}.txt", values),
            html=html,
        )


def misfit(name: str, arguments: Mapping[str, object]) -> str:
    """Return a sentence about how these arguments do not fit the kind.

    It is empty if they fit, or if the kind's parameters are not known.
    """
    try:
        parameters = signature(get(name)).parameters.values()
    except ValueError:  # a callable that is not written in Python has no signature
        return ""
    named = [it for it in parameters if it.kind in {it.KEYWORD_ONLY, it.POSITIONAL_OR_KEYWORD}]
    needed = [it.name for it in named if it.default is it.empty]
    optional = [it.name for it in named if it.default is not it.empty]
    takes_any = any(it.kind is it.VAR_KEYWORD for it in parameters)
    lacks = [it for it in needed if it not in arguments]
    strange = [] if takes_any else [it for it in arguments if it not in {*needed, *optional}]
    wrong = ([f"lacks {_and(lacks)}"] if lacks else []) + ([f"does not take {_and(strange)}"] if strange else [])
    takes = ([f"must have {_and(needed)}"] if needed else []) + ([f"may take {_and(optional)}"] if optional else [])
    return f"{name} {', and '.join(wrong)}: it {' and '.join(takes) or 'has no arguments'}." if wrong else ""


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _text(name: str, values: dict[str, object]) -> str:
    """Render a template of text without the escaping for HTML, which Django's engine does by default."""
    template = get_template(name)
    if isinstance(template, DjangoTemplate):
        return template.template.render(Context(values, autoescape=False))
    return str(template.render(values))


class Draft(NamedTuple):
    """What an e-mail would say now, and what exactly it would tell."""

    content: Content
    tells: object


class Drafting(Protocol):
    """What a kind does whose e-mails are drafted: each says what is still to be told when its transmission begins."""

    def draft(self, email: Email) -> Draft | None:
        """Return what the e-mail would say now; None if there is nothing to tell, so that it is cancelled."""

    def tell(self, email: Email, tells: Any) -> bool:  # noqa: ANN401  the kind's own
        """Record, in the transaction of `begin`, that this is told; return False if it is not to be told any more."""

    def release(self, email_ids: Collection[int], *, is_over: bool) -> None:
        """Take back, in the caller's transaction, that these e-mails have told something: none was accepted.

        They are drafted anew, unless they are over.
        """


Kind = Callable[..., Content]
_Registered = TypeVar("_Registered", bound=Kind)
LONGEST_NAME = 100  # characters
_NAME = re.compile(r"\w+(\.\w+)*", re.ASCII)  # a Message-ID can begin with such a name
LONGEST_LIFE = timedelta(days=3_650)
OF_DJANGO = "django.mail"  # the kind of a message that Django sends through OutboxBackend, unless it names another one
_kinds: dict[str, Kind] = {}
_written: set[str] = {OF_DJANGO}  # the kinds whose e-mails come written
_expires_after: dict[str, timedelta] = {}  # of the kinds whose e-mails expire
_drafting: dict[str, Drafting] = {}  # of the kinds whose e-mails are drafted


def register(name: str, *, expires_after: timedelta | None = None) -> Callable[[_Registered], _Registered]:
    """Register a function as a kind of e-mail; or a class whose call returns EmailContent.

    The function is called with the e-mail's context as keyword arguments, in the e-mail's language, once for each
    e-mail: when the e-mail is queued, or in a mailer before the first attempt. If it raises an error, only that e-mail
    fails. `expires_after` says for how long an e-mail of this kind may be sent, unless `send_once` gets `expires_at`.
    This time begins when the e-mail is queued or, if `not_before` is later, at `not_before`.
    Raises ValueError if the name is bad, or taken, or if `expires_after` is not a time above 0.
    """
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise ValueError(
            f"{name!r} cannot name a kind of e-mail: write letters, digits, _ and dots, such as order.shipped, and "
            f"{LONGEST_NAME} characters at most."
        )
    if expires_after is not None and not _is_life(expires_after):
        raise ValueError(
            f"expires_after of {name} must be a timedelta above 0, of {LONGEST_LIFE.days:,} days at most, such as "
            f"timedelta(minutes=15), but is {expires_after!r}."
        )

    def add(kind: _Registered) -> _Registered:
        if name in _kinds:
            raise ValueError(f"There are two kinds of e-mail {name!r}: {_kinds[name]!r} and {kind!r}.")
        _kinds[name] = kind
        if expires_after is not None:
            _expires_after[name] = expires_after
        return kind

    return add


def register_drafted(name: str, drafting: Drafting) -> Callable[[_Registered], _Registered]:
    """Register a kind as `register` does. Its e-mails are drafted before each attempt, and tell what `drafting` says.

    The function shows what an e-mail would say, such as for `manage.py emails preview`.
    """
    _drafting[name] = drafting
    return register(name)


def drafting(name: str) -> Drafting | None:
    """Return how e-mails of this kind are drafted; None if they are rendered once."""
    return _drafting.get(name)


def drafted() -> list[str]:
    """Return the kinds whose e-mails are drafted."""
    return sorted(_drafting)


def release(name: str, email_ids: Collection[int], *, is_over: bool) -> None:
    """Take back what e-mails of this kind have told, which were certainly not accepted, in the caller's transaction."""
    if found := _drafting.get(name):
        found.release(email_ids, is_over=is_over)


def register_written(name: str, *, expires_after: timedelta | None = None) -> None:
    """Register a kind whose e-mails the project writes itself: messages that Django sends through `OutboxBackend`.

    A message is of this kind if it has the header `X-Weir-Kind: NAME`, or its backend the option `kind`. Such e-mails
    can be paused and routed like others. They cannot be rendered, so `send_once` refuses the kind. `expires_after` and
    errors are those of `email_kind`.
    """

    def refuse(**_context: object) -> Content:
        raise CannotBeWritten(never_rendered(name))

    register(name, expires_after=expires_after)(refuse)
    _written.add(name)


def is_written(name: str) -> bool:
    """Return whether e-mails of this kind come written, so that they cannot be rendered."""
    return name in _written


def never_rendered(name: str) -> str:
    """Return a sentence about why no e-mail of this kind, which comes written, can be rendered."""
    return (
        f"The project itself writes the e-mails of the kind {name}, and OutboxBackend queues them: they cannot be "
        "rendered. Have the project send the message again."
    )


def _is_life(value: object) -> bool:
    return isinstance(value, timedelta) and timedelta() < value <= LONGEST_LIFE


def expires_after(name: str) -> timedelta | None:
    """Return for how long an e-mail of this kind may be sent; None if e-mails of this kind do not expire."""
    return _expires_after.get(name)


def names() -> list[str]:
    """Return the names of all kinds that installed apps have registered."""
    return sorted(_kinds)


def get(name: str) -> Kind:
    """Return the kind of this name. Raises UnknownKind."""
    if kind := _kinds.get(name):
        return kind
    raise UnknownKind(
        f"There is no kind of e-mail {name!r}.{did_you_mean(name, _kinds)} "
        "Add the app whose emails.py registers it to INSTALLED_APPS, restart the mailers, and have the e-mail sent "
        "again."
    )
