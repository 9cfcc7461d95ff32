"""Programs: what calls the API in tests, and one valid request to each operation."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from weir.api.operations.slots import signer_at
from weir.api.tokens import actions
from weir.api.tokens.scopes import SCOPES
from weir.notifications import inbox
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.slots import reserve
from weir.workers.audit import acting
from weir.workers.effects.models import Effect
from weir.workers.events.models import EventLog
from weir.workers.fetches.batches.counts import id_of
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch, FetchBody, FetchState, RobotsFile
from weir.workers.fetches.once.kinds import REQUEST
from weir.workers.mail.models import Email
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.watches.watching import watch
from weir.workers.webhooks import endpoints

V1: Final = "/api/v1"
HOST: Final = "a.example"
USER: Final = 7
KIND: Final = "order.shipped"


def token(*scopes: str, name: str = "shop", rate: str = "1000/s", **options: Any) -> str:
    """Create a token as an operator does, with all scopes if none is named; returns its secret."""
    return actions.create(acting.of_shell("pat"), name, scopes or SCOPES, rate=rate, burst=10_000, **options).secret


@dataclass(frozen=True, slots=True)
class Program:
    """A program that has a token, or none."""

    secret: str = ""
    browser: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, raw: bytes = b""
    ) -> Any:
        """Send a request, and return the answer, of any status."""
        sent = {**({"Authorization": f"Bearer {self.secret}"} if self.secret else {}), **(headers or {})}
        data = raw or (b"" if body is None else json.dumps(body).encode())
        answer: Any = self.browser.generic(
            method,
            path if path.startswith("/api") else V1 + path,
            data,
            "application/json" if data else "",
            headers=sent,
        )
        return answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A valid request to an operation, in the world that `seed` makes."""

    method: str
    path: str
    status: int
    body: Any = None
    is_operators: bool = False  # whether WEIR_OPS_READ_ONLY refuses it
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """What there is."""

    queued: int
    done: int
    failed: int
    email: int
    effect: int
    notification: int
    watch: int
    endpoint: int
    batch: int
    order: int
    slot: str

    def examples(self) -> dict[str, Example]:
        """Return a valid request to each operation, by the operation's id."""
        site = f"/sites/{HOST}"
        user = f"/users/{USER}/notifications"
        why = {"why": "A test wants it."}
        ids = {"ids": [self.notification]}
        email = f"/emails/{self.email}"
        letter = {"kind": KIND, "key": "A-18", "to": "Kim <kim@example.com>", "context": {"order_id": self.order}}
        kind = f"/email-kinds/{KIND}/pause"
        of_effects = f"/effect-kinds/{REQUEST}/pause"
        notice = {"users": [USER], "kind": "news", "title": "We have moved", "url": "/news/1/"}
        retry = {"filter": {"ids": [self.failed]}, "expected": 1}
        settings_of_site = {"rate": "2/s", "burst": 3}
        return {
            "post_fetches": _get("/fetches", 202, method="POST", body={"urls": [f"https://{HOST}/new"]}),
            "list_ended_fetches": _get("/fetches/ended"),
            "list_ended_emails": _get("/emails/ended?after=newest"),
            "list_ended_effects": _get("/effects/ended?after=newest"),
            "list_fetches": _get("/fetches?state=failed"),
            "get_fetch": _get(f"/fetches/{self.queued}"),
            "get_fetch_why": _get(f"/fetches/{self.queued}/why"),
            "get_fetch_body": _get(f"/fetches/{self.done}/body"),
            "cancel_fetch": _act("DELETE", f"/fetches/{self.queued}", 204),
            "retry_fetches": _act("POST", "/fetch-retries", 200, retry),
            "list_batches": _get("/batches?state=running"),
            "get_batch": _get(f"/batches/{self.batch}"),
            "cancel_batch": _act("DELETE", f"/batches/{self.batch}?why=gone", 200),
            "post_watches": _get("/watches", method="POST", body={"urls": [f"https://{HOST}/new"], "every_s": 3_600}),
            "list_watches": _get("/watches?state=failing"),
            "get_watch": _get(f"/watches/{self.watch}"),
            "remove_watch": _act("DELETE", f"/watches/{self.watch}?why=gone", 204),
            "post_endpoint": _act(
                "POST", "/webhooks", 200, {"name": "new", "url": f"https://{HOST}/", "secret": "HOOK"}
            ),
            "list_endpoints": _get("/webhooks"),
            "get_endpoint": _get(f"/webhooks/{self.endpoint}"),
            "pause_endpoint": _act("PUT", f"/webhooks/{self.endpoint}/pause", 204),
            "resume_endpoint": _act("DELETE", f"/webhooks/{self.endpoint}/pause", 204),
            "test_endpoint": _act("POST", f"/webhooks/{self.endpoint}/tests", 202),
            "remove_endpoint": _act("DELETE", f"/webhooks/{self.endpoint}?why=gone", 204),
            "list_sites": _get("/sites?sort=backlog"),
            "get_site": _get(site),
            "get_forecast": _get(f"{site}/forecast?add=100&rate=5/s"),
            "get_slots": _get(f"{site}/slots"),
            "take_slots": _get(f"{site}/slots", 201, method="POST", body={"count": 3}),
            "use_slots": _get(f"{site}/slots/used", method="POST", body={"ids": [self.slot]}),
            "release_slots": _get(f"{site}/slots/released", method="POST", body={"ids": [self.slot]}),
            "report_refusal": _get(f"{site}/refusals", method="POST", body={"id": self.slot, "retry_after_s": 30}),
            "put_site": _act("PUT", site, 200, settings_of_site, {"If-Match": "*"}),
            "pause_site": _act("PUT", f"{site}/pause", 204, {"for": "10m"}),
            "resume_site": _act("DELETE", f"{site}/pause?why=done", 204),
            "ask_robots": _act("POST", f"{site}/robots-requests", 202, why),
            "post_email": _get("/emails", 201, method="POST", body=letter),
            "list_emails": _get("/emails?state=unknown"),
            "get_email": _get(email),
            "resolve_email": _act("POST", f"{email}/resolutions", 201, {"act": "arrived", **why}),
            "list_email_kinds": _get("/email-kinds"),
            "pause_email_kind": _act("PUT", kind, 204, why),
            "resume_email_kind": _act("DELETE", f"{kind}?why=right", 204),
            "list_effects": _get(f"/effects?kind={REQUEST}&key=order-17"),
            "get_effect": _get(f"/effects/{self.effect}"),
            "resolve_effect": _act("POST", f"/effects/{self.effect}/resolutions", 201, {"act": "done", **why}),
            "list_effect_kinds": _get("/effect-kinds"),
            "pause_effect_kind": _act("PUT", of_effects, 204, why),
            "resume_effect_kind": _act("DELETE", f"{of_effects}?why=right", 204),
            "post_notification": _get("/notifications", 201, method="POST", body=notice),
            "list_notifications": _get(user),
            "mark_read": _get(f"{user}/read", method="POST", body=ids),
            "mark_all_read": _get(f"{user}/read-all", method="POST"),
            "mark_unread": _get(f"{user}/unread", method="POST", body=ids),
            "forget_user": _act("PUT", f"/users/{USER}/forgotten", 202, why),
            "get_unread": _get(f"/unread/{USER}"),
            "reconcile_unread": _act("POST", f"/unread/{USER}/reconciliations", 200, why),
            "get_status": _get("/status"),
        }


def seed() -> World:
    """Make what each operation needs: a site, fetches in some states, an unknown e-mail and effect, a notification."""
    site_settings.set_rate(HOST, "3/s")
    queued, done, failed = (request_fetch(f"https://{HOST}/{name}") for name in ("queued", "done", "failed"))
    ended = {"finished_at": Now(), "attempts": 1}
    Fetch.objects.filter(pk=done.pk).update(state=FetchState.DONE, status_code=200, headers=[["a", "b"]], **ended)
    Fetch.objects.filter(pk=failed.pk).update(state=FetchState.FAILED, error="no answer", **ended)
    FetchBody.objects.create(fetch_id=done.pk, own=b"<html>")
    soon = timezone.now() + timedelta(hours=1)
    known = {"state": "allowed", "refresh_at": soon, "expires_at": soon}
    site = Site.objects.get(name=HOST)
    RobotsFile.objects.update_or_create(origin=f"https://{HOST}", defaults={"site": site, **known})
    EventLog.objects.get_or_create(defaults={"key": uuid4()})
    watched = watch(f"https://{HOST}/watched", every=timedelta(hours=1))
    request_fetch(f"https://{HOST}/of-a-batch", batch="import-7")
    notification = inbox.notify(USER, "news", "Hello")
    endpoint = endpoints.store("orders", f"https://{HOST}/hook", secret="HOOK")  # noqa: S106  its name
    batch = id_of("import-7")
    email = _unknown_email()
    order = email.context["order_id"]
    slot = signer_at(HOST).sign(str(reserve(HOST).slots[0].id))
    effect = _unknown_effect()
    return World(
        queued.pk,
        done.pk,
        failed.pk,
        email.pk,
        effect.pk,
        notification.pk,
        watched.pk,
        endpoint.pk,
        batch,
        order,
        slot,
    )


def _unknown_email() -> Email:
    order = Order.objects.create(number="A-17", customer_email="kim@example.com")
    shipping.ship(order.pk)
    email: Email = Email.objects.get()
    Email.objects.filter(pk=email.pk).update(
        state="unknown", phase="content", last_reply="timed out", claim_token=uuid4(), sending_since=Now()
    )
    return email


def _unknown_effect() -> Effect:
    effect: Effect = Effect.objects.create(
        kind=REQUEST,
        key="order-17",
        state="unknown",
        phase="begun",
        last_reply="timed out",
        claim_token=uuid4(),
        begun_at=Now(),
    )
    return effect


def _get(path: str, status: int = 200, *, method: str = "GET", body: Any = None) -> Example:
    return Example(method=method, path=path, status=status, body=body)


def _act(method: str, path: str, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Example:
    return Example(method=method, path=path, status=status, body=body, is_operators=True, headers=headers or {})


# Their ids, which are those of the document (test_each_operation_has_an_example). Making the document takes a quarter
# of a second, for which every process that collects tests would wait.
OPERATIONS: Final = tuple(World(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "").examples())
