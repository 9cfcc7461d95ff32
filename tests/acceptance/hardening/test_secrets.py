"""Where a secret of requests is found after fetches that fail, are led away and are killed: in requests, alone."""

import base64
import io
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import quote

import pytest
import redis
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from project.embedded import postgres
from tests import programs
from tests.acceptance.conftest import Cluster, all_ended, states
from tests.acceptance.hardening.secret_sites import Origin, answers, running
from tests.answering import answering
from tests.collector import Collector
from tests.collector import running as running_collector
from tests.oauth import CLIENT
from tests.oauth import Server as TokenServer
from tests.servers import database_url
from tests.waiting import wait_for
from weir.workers.audit import acting
from weir.workers.fetches.actions import sites
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.tracing import correlation

SECRET: Final = "kim:canary-zq71"  # noqa: S105  in lower case, as parts of URLs may be
# What is found wherever it is looked for a secret, or the search finds nothing.
CONTROL: Final = "control-5d20"
OF_SITE: Final = {"Authorization": "Bearer {secret:SHOP}"}
OWN: Final = {"Authorization": "Basic {secret:SHOP|base64}"}
WITH_TOKEN: Final = {"Authorization": "Bearer {token:CLIENT}"}
KILLS: Final = 2
PAGES: Final = ("", "sites/", "fetches/", "emails/", "unread/", "audit/", "metrics", "fetches/export.csv")


@pytest.fixture
def collector(cluster: Cluster) -> Iterator[Collector]:
    """Return a collector that the cluster's processes know."""
    with running_collector() as running:
        cluster.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": running.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        yield running


@contextmanager
def heard(url: str) -> Iterator[list[bytes]]:
    """Yield a list to which each command is added that Redis gets."""
    commands: list[bytes] = []
    client: Any
    with closing(redis.Redis.from_url(url, socket_timeout=None)) as client, client.monitor() as monitor:

        def listen() -> None:
            while b"the end" not in (said := monitor.connection.read_response(disable_decoding=True)):
                commands.append(said)

        listening = Thread(target=listen)
        listening.start()
        try:
            client.set(CONTROL, 1)
            yield commands
        finally:
            client.echo("the end")
            listening.join()


def of_redis(url: str) -> bytes:
    """Return Redis's own dump, in which no text is compressed."""
    client: Any
    with closing(redis.Redis.from_url(url)) as client:
        client.config_set("rdbcompression", "no")
        client.save()
        return Path(client.config_get("dir")["dir"], client.config_get("dbfilename")["dbfilename"]).read_bytes()


def of_postgresql() -> bytes:
    """Return the database as SQL."""
    command = [str(postgres._newest_install() / "bin" / "pg_dump"), database_url(connection.settings_dict["NAME"])]
    return subprocess.run(command, check=True, capture_output=True).stdout


def of_pages(name: str, fetches: Iterable[int]) -> bytes:
    """Return the operators' pages, and the answers of the API, as somebody sees them who may see everything."""
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada"))
    pages = [*PAGES, f"sites/{name}/", *(f"fetches/{fetch}/" for fetch in fetches), f"sites/{name}/set/"]
    shown: list[Any] = [browser.get(f"/{page}") for page in pages]
    program = programs.Program(programs.token())
    paths = ["/fetches", "/sites", f"/sites/{name}", "/status", *(f"/fetches/{fetch}" for fetch in fetches)]
    shown += [program.call("GET", path) for path in paths]
    assert {answer.request["PATH_INFO"] for answer in shown if answer.status_code != HTTPStatus.OK} == set()
    return b"".join(b"".join(answer.streaming_content) if answer.streaming else answer.content for answer in shown)


def of_commands(name: str, fetches: Iterable[int]) -> bytes:
    """Return what the commands print."""
    said = io.StringIO()
    for command in (("sites", "list"), ("sites", "show", name), ("fetches", "list"), ("audit",)):
        call_command(*command, stdout=said)
    for fetch in fetches:
        call_command("fetches", "show", str(fetch), stdout=said)
        call_command("fetches", "why", str(fetch), stdout=said)
    return said.getvalue().encode()


@contextmanager
def two_origins() -> Iterator[tuple[Origin, Origin]]:
    """Run the origin that has the secret, and another one, which leads back to it."""

    def of_first(path: str, said: str) -> bytes:
        return answers(said, other.url("")).get(path, b"")

    def of_other(_path: str, _said: str) -> bytes:
        return b"HTTP/1.1 302 Found\r\nLocation: %s\r\n\r\n" % first.url("/ok").encode()

    with running("127.1.9.2", of_other) as other, running("127.1.9.1", of_first) as first:
        yield first, other


def forms(text: str) -> set[bytes]:
    """Return how a site may write what it was sent."""
    encoded = base64.b64encode(text.encode()).decode()
    written = {text, encoded, json.dumps(text)[1:-1], encoded.rstrip("="), text.encode().hex(), encoded.encode().hex()}
    return {each.encode() for form in written for each in (form, quote(form), quote(form, safe=""))}


def found(text: bytes, secrets: Iterable[str]) -> list[bytes]:
    """Return where a form of a secret is in a text, with what stands around it."""
    any_form = b"|".join(re.escape(form) for secret in secrets for form in forms(secret))
    return re.findall(b".{0,60}(?:%s).{0,20}" % any_form, text, re.IGNORECASE | re.DOTALL)


def asked(origin: Origin, paths: Iterable[str], *, attempts: int) -> list[int]:
    """Ask for these paths with the headers of the site, with a fetch's own, and with a token; returns the ids."""
    urls = [origin.url(path) for path in paths]
    ids: list[int] = []
    with correlation.bound(CONTROL):
        for headers in ({}, OWN, WITH_TOKEN):
            own = {**headers, "Accept": f"application/{CONTROL}"}
            ids += request_fetches(urls, max_attempts=attempts, headers=own).ids
    return ids


def test_a_secret_is_nowhere_but_in_requests_to_its_own_site(
    cluster: Cluster, collector: Collector, settings: Settings
) -> None:
    """Not in PostgreSQL, Redis, logs, spans, pages, answers of the API, and requests to the other origin.

    Nor is an access token, or the secret of its client. The site repeats what it got in each part of an answer's head;
    fetchers are killed while they hold fetches.
    """
    tokens = TokenServer("127.1.9.3")
    settings.WEIR_SECRETS = {"SHOP": SECRET, "CLIENT": tokens.described()}  # this process makes the pages
    cluster.environment |= {"WEIR_SECRET_SHOP": SECRET, "WEIR_SECRET_CLIENT": json.dumps(tokens.described())}
    cluster.environment |= {"WEIR_OBEY_ROBOTS": "0", "WEIR_LOG_LEVEL": "DEBUG"}
    with (
        answering(tokens.server),
        two_origins() as (first, other),
        heard(cluster.environment["REDIS_URL"]) as commands,
    ):
        of_site: dict[str, Any] = {"headers": OF_SITE, "query": {"key": "{secret:SHOP}"}}
        sites.set_rate(acting.of_shell("ada"), first.name, "50/s", why="A test wants it.", **of_site)
        sites.set_rate(acting.of_shell("ada"), tokens.name, "50/s", why="A test wants it.")
        cluster.start_together("ticks", "fetcher", "beat")
        fetches = []
        for _ in range(KILLS):
            fetches += asked(first, ["/slow"] * 2, attempts=3)
            wait_for(lambda: states()["running"], 30, "a fetcher that holds fetches")
            cluster.kill("fetcher")
            cluster.start("fetcher", "fetcher")
        fetches += asked(first, answers("", ""), attempts=1)  # each refusal backs the site off for longer
        wait_for(all_ended, 120, "all fetches to end")
        wait_for(lambda: collector.named("fetch"), 20, "the spans")
        places = {
            "PostgreSQL": of_postgresql(),
            "Redis": of_redis(cluster.environment["REDIS_URL"]),
            "commands to Redis": b"".join(commands),
            "pages": of_pages(first.name, fetches),
            "commands": of_commands(first.name, fetches),
        }
    places["logs"] = b"".join(cluster.log(name).read_bytes() for name in cluster.launched)
    places["spans"] = b"".join(collector.received)
    places["requests to the other origin"] = b"".join(other.received)

    secrets = [SECRET, CLIENT["client_secret"], *tokens.issued]
    with_secret = sum(bool(found(head, [SECRET])) for head in first.received)
    with_token = sum(bool(found(head, tokens.issued)) for head in first.received)
    print(f"\n{len(first.received)} requests, {with_secret} with the secret, {with_token} with a token; {states()}")
    print({place: len(text) for place, text in places.items()})
    assert with_secret >= len(fetches)
    assert with_token >= len(fetches) / 3
    assert {place: where for place, text in places.items() if (where := found(text, secrets))} == {}
    assert [place for place, text in places.items() if CONTROL.encode() not in text] == []
