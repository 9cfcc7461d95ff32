"""Bad requests: what a careless or hostile program sends, and how each is refused."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.programs import HOST, KIND, World
from weir.workers.fetches.once.kinds import REQUEST

URL: Final = f"https://{HOST}/new"
LONG: Final = "x" * 8_001
SITE: Final = f"/sites/{HOST}"
NOTES: Final = "/users/7/notifications"
WHY: Final = {"why": "A test wants it."}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bad:
    """A request, and the status and the kind of problem that it is refused with."""

    name: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int
    kind: str
    has_token: bool = True


def all_of(world: World) -> list[Bad]:
    """Return all bad requests, in this world."""
    found = [*_unreadable(), *_wrong_fetches(), *_wrong_headers(), *_wrong_paths(), *_wrong_queries()]
    found += [*_wrong_watches(), *_wrong_webhooks(), *_wrong_batches()]
    return [
        *found,
        *_wrong_sites(),
        *_wrong_slots(world),
        *_wrong_emails(world),
        *_wrong_effects(world),
        *_wrong_notifications(world),
        *_wrong_retries(),
    ]


def _post(name: str, path: str, body: Any, kind: str = "invalid", status: int = 422, **headers: str) -> Bad:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
    return Bad(name=name, method="POST", path=path, body=raw, headers=sent, status=status, kind=kind)


def _put(name: str, path: str, body: Any, kind: str = "invalid", status: int = 422, **headers: str) -> Bad:
    post = _post(name, path, body, kind, status, **headers)
    return Bad(name=name, method="PUT", path=path, body=post.body, headers=post.headers, status=status, kind=kind)


def _get(name: str, path: str, kind: str = "invalid", status: int = 422, method: str = "GET", **headers: str) -> Bad:
    return Bad(name=name, method=method, path=path, headers=headers, status=status, kind=kind)


def _unreadable() -> Iterator[Bad]:
    bodies = {
        "half an object": b"{",
        "a word": b"nul",
        "single quotes": b"{'urls': ['a']}",
        "NaN": b'{"urls": [NaN]}',
        "infinity": b'{"urls": ["a"], "priority": Infinity}',
        "a number without end": b'{"urls": ["a"], "priority": 1e999}',
        "a name twice": b'{"urls": ["a"], "urls": ["b"]}',
        "UTF-16": json.dumps({"urls": [URL]}).encode("utf-16"),
        "UTF-16 without mark": json.dumps({"urls": [URL]}).encode("utf-16-be"),
        "UTF-32": json.dumps({"urls": [URL]}).encode("utf-32"),
        "a byte order mark": b"\xef\xbb\xbf" + json.dumps({"urls": [URL]}).encode(),
        "Latin-1": '{"urls": ["https://a.example/é"]}'.encode("latin-1"),
        "overlong UTF-8": b'{"urls": ["https://a.example/\xc0\xaf"]}',
        "surrogates in UTF-8": b'{"urls": ["https://a.example/\xed\xa0\x80"]}',
        "deep lists": b"[" * 100_000 + b"]" * 100_000,
        "deep objects": b'{"urls":' * 100_000 + b"1" + b"}" * 100_000,
        "deep in a field": b'{"urls": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        "a long number": b'{"urls": ["a"], "priority": ' + b"9" * 5_000 + b"}",
        "two documents": b'{"urls": ["a"]}{"urls": ["a"]}',
        "a comment": b'{"urls": ["a"]} // please',
        "a trailing comma": b'{"urls": ["a",]}',
        "a control character": b'{"urls": ["a\nb"]}',
        "gzip": gzip.compress(b'{"urls": ["a"]}'),
        "XML": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        "pickle": base64.b64decode("gASVCgAAAAAAAACMBHVybHOULg=="),
    }
    for name, body in bodies.items():
        yield _post(f"unreadable: {name}", "/fetches", body, "malformed", 400)


def _wrong_fetches() -> Iterator[Bad]:
    yield _post("no body", "/fetches", b"")
    for whole in ([], "text", 1, None, True, {}, [URL], {"url": URL}):
        yield _post(f"body {whole!r}", "/fetches", whole)
    for urls in (
        [],
        "https://a.example/",
        [1],
        [None],
        [[URL]],
        {"a": URL},
        [URL] * 1_001,
        [LONG],
        ["a\0b"],
        ["\ud800"],
    ):
        yield _post(f"urls {str(urls)[:30]!r}", "/fetches", {"urls": urls})
    values: Mapping[str, list[Any]] = {
        "priority": ["1", 1.5, True, None, 32_767, -32_769, 2**70],
        "not_before": [1, "yesterday", "2026-01-31T12:00:00", "9999-99-99T00:00:00Z", "", True, "\0"],
        "max_attempts": [0, -1, 32_768, "5", 5.5],
        "revalidate": ["yes", 1, None],
        "dedupe": ["true", 0, []],
        "method": ["post", "TRACE", "", None, 1, "GET / HTTP/1.1\r\nX:"],
        "repeatable": ["true", 1, None],
        "max_redirects": [-1, 21, "1", True, None],
        "share": ["s" * 101, "a\nb", 7],
        "reference": ["r" * 201, "a\nb", 7, ["a", "b", "c", "d", "e"], [7], [None], {}],
        "body": ["text", 1, [], True],  # of a GET
        "json": [0, {}, "text"],
        "form": [{"a": "1"}, {"a": 1}, [["a", "1"]], "a=1"],
    }
    for name, wrong in values.items():
        for value in wrong:
            yield _post(f"{name} {value!r}", "/fetches", {"urls": [URL], name: value})
    for name, value in (("Host", "b.example"), ("A", "a\r\nb"), ("A", ""), ("", "a"), ("A", "{secret:A}"), ("A", 1)):
        yield _post(f"headers {name!r} {value!r}", "/fetches", {"urls": [URL], "headers": {name: value}})
    for given in ({"body": "1"}, {"body": "1", "json": 1, "repeatable": True}, {"json": "\ud800", "repeatable": True}):
        yield _post(f"POST {given!r}", "/fetches", {"urls": [URL], "method": "POST", **given})
    many = {"urls": [URL] * 11, "method": "PUT", "repeatable": True, "body": "1"}
    yield _post("a body for many", "/fetches", many)
    # Mass assignment: columns of the table, and what only web code may choose.
    for name in (
        "id",
        "state",
        "site",
        "site_id",
        "error",
        "on_done",
        "status_code",
        "created_at",
        "hop_url",
        "token",
        "idempotency_key",
    ):
        yield _post(f"assigns {name}", "/fetches", {"urls": [URL], name: "1"})
    for name in ("is_robots", "idempotency_key", "lease_until", "slot_id", "correlation_id", "__class__", "", "urls\0"):
        yield _post(f"assigns {name!r}", "/fetches", {"urls": [URL], name: True})


def _wrong_headers() -> Iterator[Bad]:
    right = {"urls": [URL]}
    for key in ("k" * 256, "two words", "tab\there"):
        yield _post(f"key {key[:10]!r}", "/fetches", right, Idempotency_Key=key)
    for of_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""):
        yield _post(f"type {of_type!r}", "/fetches", right, "unsupported-media-type", 415, Content_Type=of_type)
    yield _get("a body with GET is no filter", "/fetches?limit=0", Content_Type="application/json")
    for if_match in ("junk", '"', '"x" "y"', 'w/"abc"', "**"):
        yield _put(f"If-Match {if_match[:10]!r}", SITE, {"rate": "9/s"}, "malformed", 400, If_Match=if_match)
    for if_match in ('"xyz"', 'W/"abc"', '"' + "a" * 65 + '"'):
        yield _put(f"If-Match {if_match[:10]!r}", SITE, {"rate": "9/s"}, "changed", 412, If_Match=if_match)
    yield _put("a long If-Match", SITE, {"rate": "9/s"}, If_Match='"a",' * 600)


def _wrong_paths() -> Iterator[Bad]:
    missing = ("/", "/nothing", "/fetches/", "/FETCHES", "//fetches", "/fetches/1/bodies", "/../admin/")
    for path in (*missing, "/fetches/1/why/", "/%2e%2e/%2e%2e/etc/passwd", "/fetches/1/..", "/fetches/..;/1"):
        yield _get(f"path {path}", path, "not-found", 404)
    for text in ("0", "-1", "9223372036854775808", "1e3", "0x10", "abc", "1.0", "%00", "1;DROP TABLE", "1%20OR%201=1"):
        path = f"/fetches/{text.replace(' ', '%20')}"
        yield _get(f"id {text}", path)
        yield _get(f"e-mail {text}", f"/emails/{text.replace(' ', '%20')}")
        yield _get(f"effect {text}", f"/effects/{text.replace(' ', '%20')}")
    for path in ("/fetches/999999", "/fetches/999999/why", "/fetches/999999/body", "/emails/999999", "/effects/999999"):
        yield _get(f"unknown {path}", path, "not-found", 404)
    yield _get("unknown fetch cancelled", "/fetches/999999", "not-found", 404, "DELETE")
    for method in ("PATCH", "PUT", "OPTIONS", "HEAD", "DELETE", "TRACE", "BREW"):
        yield _get(f"method {method}", "/fetches", "method-not-allowed", 405, method)
    for host in ("unknown.example", "%0d%0aX-Evil:%201"):
        kind, status = ("not-found", 404) if host == "unknown.example" else ("invalid", 422)
        yield _get(f"host {host}", f"/sites/{host}", kind, status)
    for user in ("abc", "9" * 30, "1%20OR%201=1", "%0d%0aX-Evil:%201", "1.5", "%00", "x" * 256):
        yield _get(f"user {user[:20]}", f"/unread/{user}")


def _wrong_queries() -> Iterator[Bad]:
    cursor = base64.urlsafe_b64encode(json.dumps(["ended", 1, "now"]).encode()).decode()
    queries = {
        "/fetches": (
            *("limit=0", "limit=101", "limit=-1", "limit=abc", "state=nope", "state=", "status=99", "status=abc"),
            *("since=soon", "until=%00", "since=2h&state=queued", "site=unknown.example", "site=%0d%0a", "url=%00"),
            *(
                "after=!!!",
                f"after={cursor}",
                "after=" + "a" * 4_001,
                "stat=failed",
                "limit=1&x=1",
                "id=1",
                "token=weir_",
            ),
            *("error=" + "x" * 1_001, "limit=1&limit=zwei"),
        ),
        "/sites": ("sort=id;DROP", "state=nope", "after=abc", "search=" + "x" * 301, "search=%00", "order=name"),
        f"{SITE}/forecast": ("add=-1", "add=1000001", "add=many", "rate=fast", "rate=1/0s", "rate=9999/s", "when=now"),
        "/fetches/ended": ("limit=0", "limit=1001", "after=abc", "after=W10", "after=" + "a" * 4_001, "state=done"),
        "/emails/ended": ("limit=x", "after=NEWEST", "kind=order.shipped"),
        "/effects/ended": ("limit=x", "after=NEWEST", f"kind={REQUEST}"),
        "/effects": ("state=lost", "after=abc", "key=" + "x" * 101, "kind=" + "k" * 101, "id=17", "key=%00"),
        "/emails": ("state=lost", "after=abc", "to=" + "x" * 321, "kind=" + "k" * 101, "recipient=kim"),
        NOTES: ("limit=0", "limit=101", "after=abc", "after=WzBd", "unread_only=perhaps", "before=1"),
    }
    for path, of_path in queries.items():
        for query in of_path:
            yield _get(f"{path}?{query[:40]}", f"{path}?{query}")


def _wrong_sites() -> Iterator[Bad]:
    values: Mapping[str, list[Any]] = {
        "rate": ["abc", "", "0/s", "1/0s", "1001/s", "1/367d", 3, None, "3/s; DROP", "x" * 51],
        "burst": [0, -1, 10_001, "3", 1.5, 10**30],
        "max_concurrency": [0, -1, 2**31, "1"],
        "grace_s": [0, 0.001, 86_401, "1", -1],
        "covers_subdomains": ["yes", 1, None],
        "obeys_robots": ["no", 0],
        "refusing": [403, "403", ["403"], [200], [1000], [403.5], [*range(400, 419)], [*range(400, 425)]],
        "headers": [[], "A: 1", {"A": 1}, {"Host": "b.example"}, {"A": "a\r\nb"}, {"Authorization": "x"}, {"A": "\0"}],
        "network": [[], {"proxy": 1}, {"via": "x"}, {"ca": "text"}, {"proxy": "socks5://a:1"}, {"proxy": "http://a:1"}],
        "query": [[], "a=1", {"a": 1}, {"": "x"}, {"a": "\0"}, {"a": "{SECRET:A}"}, {"a": "{token:A}"}],
        "weights": [[], "a=1", {"a": 0}, {"a": 101}, {"a": "1"}, {"a": 1.5}, {"": 1}, {"a\n": 1}, {"s" * 101: 1}],
        "next_start": ["2000-01-01T00:00:00Z"],
        "recalled_slot": [0],
    }
    for name, wrong in values.items():
        for value in wrong:
            yield _put(f"site's {name} {value!r}", SITE, {"rate": "9/s", name: value}, If_Match="*")
    yield _put("without If-Match", SITE, {"rate": "9/s"}, "if-match-needed", 428)
    yield _put("another version", SITE, {"rate": "9/s"}, "changed", 412, If_Match='"0123456789abcdef0123456789abcdef"')
    yield _put("a version of nothing", "/sites/new.example", {"rate": "9/s"}, "changed", 412, If_Match="*")
    yield _put("a token's site", "/sites/token~1", {"rate": "1000/s"}, "not-permitted", 403, If_Match="*")
    yield _put("a token's pause", "/sites/token~1/pause", {}, "not-permitted", 403)
    for host in ("*.example.com", "a%20b", "http:", "a%3Fb", "h" * 301, "%00", "%0d%0aX:1", "user@a.example"):
        yield _put(f"host {host[:20]}", f"/sites/{host}", {"rate": "9/s"})
    for lasts in ("soon", "-1", "999999999d", "0", 10, "", "\0"):
        yield _put(f"pause for {lasts!r}", f"{SITE}/pause", {"for": lasts})
    yield _put("pause of nothing", "/sites/unknown.example/pause", {}, "not-found", 404)
    yield _put("a long reason", f"{SITE}/pause", {"why": "x" * 2_001})
    yield _get("resume of nothing", "/sites/unknown.example/pause", "not-found", 404, "DELETE")


def _wrong_slots(world: World) -> Iterator[Bad]:
    path = f"{SITE}/slots"
    values: Mapping[str, list[Any]] = {
        "count": [0, -1, 101, "3", 1.5, True, None],
        "max_wait_s": [-1, 60.5, "1", None, 10**400],
        "late_s": [-0.1, 5.5, "1", None],
        "burst": [3],
    }
    for name, wrong in values.items():
        for value in wrong:
            yield _post(f"slots' {name} {str(value)[:30]!r}", path, {name: value})
    number = world.slot.partition(":")[0]
    for slot in ("", number, f"{number}:", world.slot[:-1], "9" + world.slot, "x" * 101, 7, None, "\0"):
        for act in ("used", "released"):
            yield _post(f"{act} {str(slot)[:20]!r}", f"{path}/{act}", {"ids": [world.slot, slot]})
        yield _post(f"a refusal of {str(slot)[:20]!r}", f"{SITE}/refusals", {"id": slot})
    for ids in ([], [world.slot] * 101, world.slot, None):
        yield _post(f"used {str(ids)[:20]}", f"{path}/used", {"ids": ids})
    yield _post("a slot of another host", "/sites/b.example/slots/used", {"ids": [world.slot]})
    yield _post("a start of a token", "/sites/token~1/slots", {}, "not-permitted", 403)
    for seconds in (0, -1, "30", 10**10):
        yield _post(f"a refusal for {seconds!r}", f"{SITE}/refusals", {"id": world.slot, "retry_after_s": seconds})
    yield _post("a long answer", f"{SITE}/refusals", {"id": world.slot, "reason": "x" * 201})


def _wrong_emails(world: World) -> Iterator[Bad]:
    letter = {"kind": KIND, "key": "A-19", "to": "kim@example.com", "context": {"order_id": world.order}}
    values: Mapping[str, list[Any]] = {
        "kind": ["", "no.such", "k" * 101, None, 7, "weir.needs_somebody", "order shipped"],
        "key": ["", "k" * 101, None, 7, "a\0b"],
        "to": ["", "kim", None, ["kim@example.com"], "kim@example.com, eve@example.com", "a\r\nBcc: eve@example.com"],
        "context": [
            {},
            {"order": world.order},
            {"order_id": world.order, "also": 1},
            {"order_id": "x"},
            {"order_id": 0},
            {"order_id": "x" * 65_536},
            [],
            "text",
            None,
        ],
        "language": ["", "tlh", 7, "x" * 21],
        "not_before": ["soon", 7, "2026-01-31T12:00:00"],
        "expires_at": ["2020-01-31T12:00:00Z", "soon", 7],
        "priority": [101, -101, "1", 1.5, None],
        "state": ["sent"],
        "raises": [False],
        "message_id": ["<a@example.com>"],
    }
    for name, wrong in values.items():
        for value in wrong:
            yield _post(f"e-mail's {name} {str(value)[:30]!r}", "/emails", {**letter, name: value})
    for name in ("kind", "key", "to"):
        yield _post(f"e-mail without {name}", "/emails", {key: letter[key] for key in letter if key != name})
    path = f"/emails/{world.email}/resolutions"
    for act in ("bounced", "sent", "", None, 1):
        yield _post(f"act {act!r}", path, {"act": act, **WHY})
    yield _post("no reason", path, {"act": "arrived"})
    yield _post("a blank reason", path, {"act": "arrived", "why": " \n"}, "no-reason")
    yield _post("another recipient of a resent one", path, {"act": "resend", "to": "eve@example.com", **WHY})
    yield _post("assigns state", path, {"act": "arrived", "state": "sent", **WHY})
    yield _post("assigns who", path, {"act": "arrived", "who": "root", **WHY})
    yield _post("not to be cancelled", path, {"act": "cancel", **WHY}, "not-in-this-state", 409)
    yield _post("unknown e-mail", "/emails/999999/resolutions", {"act": "arrived", **WHY}, "not-found", 404)
    yield _put("unknown kind", "/email-kinds/no.such/pause", WHY, "not-found", 404)
    yield _put("no reason for a kind", f"/email-kinds/{KIND}/pause", {"why": ""}, "no-reason")
    yield _get("no reason to resume", f"/email-kinds/{KIND}/pause", "no-reason", 422, "DELETE")


def _wrong_effects(world: World) -> Iterator[Bad]:
    path, pause = f"/effects/{world.effect}/resolutions", f"/effect-kinds/{REQUEST}/pause"
    for act in ("arrived", "give_up", "", None, 1):
        yield _post(f"an effect's act {act!r}", path, {"act": act, **WHY})
    yield _post("no reason of an effect", path, {"act": "done"})
    yield _post("a blank reason of an effect", path, {"act": "done", "why": " \n"}, "no-reason")
    yield _post("assigns an effect's state", path, {"act": "done", "state": "done", **WHY})
    yield _post("assigns a result", path, {"act": "done", "result": 1, **WHY})
    yield _post("an effect not to be cancelled", path, {"act": "cancel", **WHY}, "not-in-this-state", 409)
    yield _post("no probe to ask", path, {"act": "ask", **WHY}, "not-in-this-state", 409)
    yield _post("an effect that was changed", path, {"act": "done", **WHY}, "changed", 412, If_Match='"seen"')
    yield _post("no ETag of an effect", path, {"act": "done", **WHY}, "malformed", 400, If_Match="seen")
    yield _post("unknown effect", "/effects/999999/resolutions", {"act": "done", **WHY}, "not-found", 404)
    yield _put("unknown kind of effect", "/effect-kinds/no.such/pause", WHY, "not-found", 404)
    yield _put("no reason for a kind of effect", pause, {"why": ""}, "no-reason")
    yield _get("no reason to resume effects", pause, "no-reason", 422, "DELETE")


def _wrong_notifications(world: World) -> Iterator[Bad]:
    right = {"users": [7], "kind": "news", "title": "We have moved"}
    values: Mapping[str, list[Any]] = {
        "users": [[], 7, ["abc"], [1.5], [True], [None], [2**63], ["9" * 300], list(range(10_001)), ["7\0"]],
        "kind": ["", "k" * 101, 1, None],
        "title": ["", "x" * 1_001, 1, "\0"],
        "body": ["x" * 10_001, None],
        "url": [
            "javascript:alert(1)",
            "data:text/html,x",
            "//evil.example/",
            "/\\evil.example",
            "/a\r\nX: 1",
            "ftp://a/",
        ],
        "dedupe_key": ["", "k" * 256, 1],
        "expires_at": ["2026-01-31T12:00:00", "soon", 1],
        "read_at": ["2026-01-31T12:00:00Z"],
        "user_id": [8],
    }
    for name, wrong in values.items():
        for value in wrong:
            yield _post(f"notification's {name} {str(value)[:30]!r}", "/notifications", {**right, name: value})
    for ids in ([], ["a"], [0], [-1], [2**63], list(range(1, 1_002)), world.notification, [None]):
        yield _post(f"read {str(ids)[:20]}", f"{NOTES}/read", {"ids": ids})

    yield _put("a user forgotten for no reason", "/users/7/forgotten", {}, "no-reason")
    for body in ({"address": "kim"}, {"address": "kim shop@a.example"}, {"why": "x" * 2_001}, {"emails": 1}):
        yield _put(f"a user forgotten with {str(body)[:30]}", "/users/7/forgotten", {"why": "a", **body})
    yield _put("a user of a word forgotten", "/users/kim/forgotten", {"why": "a"})
    yield _get("what was forgotten is not read", "/users/7/forgotten", "method-not-allowed", 405)


def _wrong_webhooks() -> Iterator[Bad]:
    good = {"name": "orders", "url": "https://a.example/hook", "secret": "ORDERS"}
    wrong: tuple[dict[str, Any], ...] = (
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"url": "ftp://a.example/"},
        {"url": "http://127.0.0.1/"},
        {"secret": "{secret:ORDERS}"},
        {"types": ["fetch.began"]},
        {"types": "fetch.done"},
    )
    for change in wrong:
        yield _post(f"endpoint {change}"[:60], "/webhooks", {**good, **change})
    yield _get("an endpoint that there is not", "/webhooks/999999", "not-found", 404)
    yield _get("the end of an endpoint that there is not", "/webhooks/999999", "not-found", 404, method="DELETE")


def _wrong_watches() -> Iterator[Bad]:
    hourly = {"urls": [URL], "every_s": 3_600}
    bodies: tuple[dict[str, Any], ...] = (
        {"urls": [URL]},
        {"urls": [], "every_s": 3_600},
        {"urls": ["ftp://a.example/"], "every_s": 3_600},
        {"urls": [URL], "every_s": 0.5},
        {"urls": [URL], "every_s": "3600"},
        {"urls": [URL], "every_s": 10**12},
        hourly | {"jitter": 0.6},
        hourly | {"shortest_s": 60},
        hourly | {"shortest_s": 7_200, "longest_s": 9_000},
        hourly | {"priority": 2**20},
        hourly | {"headers": {"X-Key": "{secret:SHOP}"}},
        hourly | {"headers": {"Host": "b.example"}},
        hourly | {"on_change": "shop.tasks.changed"},
        {str(number): 1 for number in range(100_000)},
    )
    for body in bodies:
        yield _post(f"watch {body}"[:60], "/watches", body)
    yield _get("a watch that there is not", "/watches/999999", "not-found", 404)
    yield _get("the end of a watch that there is not", "/watches/999999", "not-found", 404, method="DELETE")
    yield _get("a watch of a word", "/watches/new")
    yield _get("watches in no state", "/watches?state=asleep")
    yield _get("watches after nonsense", "/watches?after=nonsense")


def _wrong_batches() -> Iterator[Bad]:
    for body in (
        {"urls": [], "more_to_come": True},
        {"urls": [URL], "more_to_come": True},
        {"urls": [URL], "batch": ""},
        {"urls": [URL], "batch": "a\nb"},
        {"urls": [URL], "batch": "x" * 201},
        {"urls": [URL], "batch": 7},
        {"urls": [URL], "batch": "b", "on_batch_done": "shop.tasks.imported"},
    ):
        yield _post(f"batch {body}"[:60], "/fetches", body)
    yield _get("a batch that there is not", "/batches/999999", "not-found", 404)
    yield _get("the end of a batch that there is not", "/batches/999999", "not-found", 404, method="DELETE")
    yield _get("a batch of a word", "/batches/new")
    yield _get("batches in no state", "/batches?state=asleep")
    yield _get("batches after nonsense", "/batches?after=nonsense")
    yield _get("fetches of a batch that there is not", "/fetches?batch=gone")


def _wrong_retries() -> Iterator[Bad]:
    path = "/fetch-retries"
    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"filter": {}},
        {"filter": {}, "expected": 10**6},
        {"filter": {"status": 503}},
        {"filter": {"status": 503}, "expected": -1},
        {"filter": {"status": 503}, "expected": "1"},
        {"filter": {"status": 9}, "expected": 1},
        {"filter": {"state": ["done"]}, "expected": 1},
        {"filter": {"ids": ["1"]}, "expected": 1},
        {"filter": {"ids": list(range(1, 1_002))}, "expected": 1},
        {"filter": {"site": "unknown.example"}, "expected": 1},
        {"filter": {"site": "a b"}, "dry_run": True},
        {"filter": {"status": 503}, "expected": 2**63 - 1},
        {str(number): 1 for number in range(100_000)},
        {"filter": {"since": "soon"}, "expected": 1},
        {"filter": {"url": "a\0b"}, "expected": 1},
    )
    for body in bodies:
        yield _post(f"retry {body}"[:60], path, body)
    yield _post("more than expected", path, {"filter": {"site": HOST}, "expected": 0}, "more-than-expected", 409)
