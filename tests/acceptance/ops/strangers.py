"""Rows with texts as hostile as strangers can write them: markup, scripts, changes of direction, very long lines."""

from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final, NamedTuple
from uuid import uuid4

from django.utils import timezone

from weir.ratelimit.models import Site
from weir.workers.audit.models import Door, Entry
from weir.workers.effects.models import Effect, PausedEffectKind
from weir.workers.fetches.models import Batch, Fetch, FetchBody, FetchState, RobotsFile, RobotsState
from weir.workers.mail.models import Email, PausedKind, RelayHold, Rendering
from weir.workers.processes.models import Process
from weir.workers.watches.models import Watch
from weir.workers.webhooks.models import Endpoint

MARKUP: Final = "<script>alert(1)</script>\"><img src=x onerror='alert(2)'>{{ 7 }}</title>"
# What turns text around, takes no room, or is not a character: PostgreSQL refuses only NUL.
DIRECTIONS: Final = "\u202egnp.exe\u2066\u200b\u200f \u05e9\u05dc\u05d5\u05dd \U0001f9e8\ufeff\x01\x1b[2J\x7f\x85"
LONG: Final = MARKUP + DIRECTIONS + "x" * 1_000_000
SHORTER: Final = LONG[:3_000]  # a hundred of these in a list are still more than a page may weigh
LINK: Final = "javascript:alert(3)"
SITE: Final = "site.example"
HOSTILE_SITE: Final = '"><img src=x onerror=alert(4)>\u202e.example'
MORE: Final = 110  # than a page of a list has


class Rows(NamedTuple):
    """Ids of what pages of one thing show."""

    queued: int
    failed: int
    done: int
    email: int
    rendered: int
    watch: int
    batch: int
    endpoint: int
    effect: int


def write() -> Rows:
    """Write rows of each kind, and of some kinds more than a page shows."""
    sites = [
        Site.objects.create(name=name, interval=timedelta(seconds=1), has_backlog=True, backoff_error=LONG[:300])
        for name in (SITE, HOSTILE_SITE, *(f"{number}.example" for number in range(MORE)))
    ][:2]
    _write_robots(sites)
    queued, failed, done = _write_fetches(sites)
    PausedKind.objects.create(kind=MARKUP[:60], who=MARKUP, why=LONG)
    RelayHold.objects.create(relay=MARKUP, reason=LONG)
    Process.objects.create(kind="fetcher", name=LONG[:300], host=MARKUP, pid=1, version=MARKUP[:50])
    _write_entries()
    return Rows(
        queued,
        failed,
        done,
        *_write_emails(),
        _write_watches(),
        _write_batches(queued),
        _write_endpoints(failed),
        _write_effects(),
    )


def _write_robots(sites: list[Site]) -> None:
    now = timezone.now()
    for site in sites:
        RobotsFile.objects.create(
            origin=f"https://{site.name}",
            site=site,
            state=RobotsState.UNREACHABLE,
            error=LONG,
            rules=LONG[:500_000],
            refresh_at=now,
            expires_at=now + timedelta(days=1),
        )


def _write_fetches(sites: list[Site]) -> tuple[int, int, int]:
    now, site = timezone.now(), sites[0]
    failed = [
        Fetch(url=url, site=site, state=FetchState.FAILED, error=error, headers=[[MARKUP, error]], finished_at=now)
        for url, error in [(LINK, LONG), (LONG, LONG), *[(f"https://{SITE}/{MARKUP}{'y' * 2000}", SHORTER)] * MORE]
    ]
    Fetch.objects.bulk_create(failed)
    done = Fetch.objects.create(
        url=LINK,
        site=site,
        state=FetchState.DONE,
        status_code=200,
        headers=[["content-type", "text/html"], [MARKUP, MARKUP]] + [[LINK, LONG[:1500]]] * 40,
        finished_at=now,
    )
    FetchBody.objects.create(fetch=done, own=LONG.encode())
    queued = Fetch.objects.bulk_create([Fetch(url=url, site=at) for url in (LINK, LONG) for at in sites])
    return queued[0].pk, failed[0].pk, done.pk


def _write_entries() -> None:
    state = {"rate": MARKUP, MARKUP: SHORTER}
    Entry.objects.bulk_create(
        Entry(actor=MARKUP, door=Door.API, action="sites.set", target=LONG[:300], why=why, before=state, after=state)
        for why in (LONG, *[SHORTER] * MORE, LONG)
    )


def _write_batches(queued: int) -> int:
    first, *_ = Batch.objects.bulk_create(
        Batch(name=f"{number}{MARKUP}"[:200], on_done=MARKUP[:200], is_open=True, failed=17) for number in range(MORE)
    )
    Fetch.objects.filter(pk=queued).update(batch=first)
    return first.pk


def _write_endpoints(failed: int) -> int:
    texts = {"secret": "HOOK", "error": LONG}
    first, *_ = Endpoint.objects.bulk_create(
        Endpoint(name=f"{number}{MARKUP}"[:200], url=f"https://{SITE}/{number}{SHORTER}"[:2_000], **texts)
        for number in range(3)
    )
    Fetch.objects.filter(pk=failed).update(endpoint_id=first.pk)
    return first.pk


def _write_watches() -> int:
    every = timedelta(hours=1)
    texts: dict[str, Any] = {"host": MARKUP, "error": SHORTER, "on_change": MARKUP, "failing_since": timezone.now()}
    first, *_ = Watch.objects.bulk_create(
        Watch(
            key=f"{number} {SHORTER if number else LONG}",
            dedupe_key=uuid4(),
            url=f"https://{SITE}/{number}{SHORTER}",
            request_headers={MARKUP: MARKUP},
            every=every,
            period=every,
            jitter=0.1,
            shortest=every,
            longest=every,
            next_at=timezone.now() + every,
            changes=number,
            **texts,
        )
        for number in range(MORE)
    )
    return first.pk


def _write_effects() -> int:
    PausedEffectKind.objects.create(kind=MARKUP[:60], who=MARKUP, why=LONG)
    texts: dict[str, Any] = {"claimed_by": LONG[:300], "last_reply": LONG[:50_000], "on_done": MARKUP[:200]}
    first, *_ = Effect.objects.bulk_create(
        Effect(kind=MARKUP[:60], key=f"{number} {MARKUP}"[:100], context={MARKUP: text}, result=text, **texts)
        for number, text in enumerate((LONG, *[SHORTER] * (MORE - 1)))
    )
    return first.pk


def transmitted(html: str) -> bytes:
    """Return what is transmitted of an e-mail with this HTML."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = MARKUP
    message.set_content(LONG)
    message.add_alternative(html, subtype="html")
    message.add_attachment(b"%PDF", "application", "pdf", filename=MARKUP)
    return message.as_bytes()


def _write_emails() -> tuple[int, int]:
    texts = {"last_reply": LONG[:50_000], "claimed_by": LONG[:300], "recipient_name": MARKUP, "message_id": MARKUP}
    emails = [
        Email(
            kind=MARKUP[:60],
            key=f"{number} {MARKUP}"[:100],
            recipient=MARKUP[:100],
            subject=LONG[:200],
            language="<b>",
            **texts,
        )
        for number in range(MORE)
    ]
    waiting, rendered, *_ = Email.objects.bulk_create(emails)
    content = transmitted(
        f"<h1>Hello {DIRECTIONS}</h1><a href={LINK}>{'x' * 10_000}</a>"
    )  # the rest: test_email_frame.py
    Rendering.objects.create(email=rendered, content=content)
    return waiting.pk, rendered.pk
