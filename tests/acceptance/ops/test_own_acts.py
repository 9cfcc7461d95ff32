"""Who acts reads the effect, whichever web process answers; of several who decide the same, one does."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from html import unescape
from http import HTTPStatus
from itertools import count, cycle, islice
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import uuid4

import pytest

from tests.acceptance import web_process
from tests.acceptance.ops.conftest import session_of, who_may_act
from weir.ratelimit import site_settings
from weir.workers.audit.models import Entry
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.mail.models import Email, Resolution
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)

PROCESSES: Final = 3
PEOPLE: Final = 8
ACTS: Final = int(os.environ.get("WEIR_TEST_ACTS", "24"))
HOST: Final = "a.example"
KIND: Final = "order.shipped"
WHY: Final = "They asked."


class _Stays(HTTPRedirectHandler):
    def redirect_request(self, *_request: object) -> None:
        return None


_opener = build_opener(_Stays)


class Person:
    """A signed-in browser without script, whose requests go to the web processes in turn."""

    def __init__(self, webs: list[str], session: str) -> None:
        self._webs, self._turns = webs, cycle(webs)
        self._cookies = f"sessionid={session}; csrftoken={'a' * 32}"

    def seen_by_all(self, path: str) -> list[str]:
        """Return the page as each process shows it."""
        return [self._ask(web, path)[1] for web in self._webs]

    def decide(self, page: str, path: str, **values: str) -> tuple[int, str]:
        """Follow the page's link to a form, and send it; returns the status, and the path or page that is answered."""
        [link] = set(re.findall(f'href="({re.escape(path)}[^"]*)"', page))
        status, form = self._ask(next(self._turns), unescape(link))
        if status != HTTPStatus.OK:
            return status, form
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form)) | {"csrfmiddlewaretoken": "a" * 32, **values}
        return self._ask(next(self._turns), unescape(link), urlencode(fields).encode())

    def _ask(self, web: str, path: str, form: bytes | None = None) -> tuple[int, str]:
        try:
            with _opener.open(Request(web + path, form, {"Cookie": self._cookies}), timeout=30) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.headers["Location"] or error.read().decode()


@pytest.fixture(scope="module")
def webs(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:  # noqa: ARG001
    logs = tmp_path_factory.mktemp("webs")
    with ExitStack() as running:
        yield [
            running.enter_context(
                web_process.on_test_database(logs / f"{number}.log", DJANGO_SETTINGS_MODULE="project.settings")
            )
            for number in range(PROCESSES)
        ]


@pytest.fixture
def session() -> str:
    site_settings.set_rate(HOST, "1/s")
    return session_of(who_may_act())


def unknown(number: int) -> int:
    shipping.ship(Order.objects.create(number=str(number), customer_email="kim@example.com").pk)
    Email.objects.filter(state="pending").update(
        state="unknown",
        last_reply="lost",
        phase="after dot",
        claim_token=uuid4(),
        sending_since="2026-01-01T00:00Z",
        ended_at="2026-01-01T00:00Z",
    )
    return Email.objects.latest("pk").pk


def acts() -> Iterator[tuple[str, str, dict[str, str], str]]:
    """Yield a page, a form that it leads to, what is filled in, and what the page then shows that it did not before."""
    site, emails = f"/sites/{HOST}/", "/emails/"
    for number in count(2):
        yield site, f"{site}set/", {"rate": f"{number}/s"}, f"<b>{number}/s</b>"
        yield site, f"{site}pause/", {"duration": "1h"}, ">Paused<"
        yield site, f"{site}resume/", {}, ">Running<"
        yield emails, f"{emails}kinds/{KIND}/pause/", {"why": WHY}, ">paused<"
        yield emails, f"{emails}kinds/{KIND}/resume/", {"why": WHY}, f"{emails}kinds/{KIND}/pause/"
        email = unknown(number)
        yield f"{emails}{email}/", f"{emails}{email}/arrived/", {"why": WHY}, "State: sent"
        [fetch] = request_fetches([f"https://{HOST}/{number}"])
        yield f"/fetches/{fetch.pk}/", f"/fetches/{fetch.pk}/cancel/", {}, "cancelled"


def test_the_page_after_an_act_shows_its_effect(webs: list[str], session: str) -> None:
    """All processes have shown the page before, so each has a snapshot in which nothing was done."""
    person, wrong = Person(webs, session), []
    last: dict[str, str] = {}  # by page: where the act before has led
    for path, form, values, effect in islice(acts(), ACTS):
        before = person.seen_by_all(last.get(path, path))
        assert not [page for page in before if effect in page]
        status, to = person.decide(before[0], form, **values)
        assert (status, to.partition("?")[0]) == (HTTPStatus.FOUND, path), to
        last[path], shown = to, person.seen_by_all(to)
        wrong += [(form, to) for page in shown if effect not in page or "Done:</b>" not in page]
    print(f"{ACTS} acts, {PROCESSES} web processes: {len(wrong)} pages without the effect")
    assert not wrong
    assert Entry.objects.count() >= ACTS


def test_of_people_who_decide_at_once_one_does(webs: list[str], session: str) -> None:
    """Half of them say that it arrived, half send it again. Who is late is told, and has changed nothing."""
    email = unknown(1)
    path = f"/emails/{email}/"
    people = [Person(webs[number % PROCESSES :] + webs[: number % PROCESSES], session) for number in range(PEOPLE)]
    pages = [person.seen_by_all(path)[0] for person in people]
    forms = [f"{path}{'arrived' if number % 2 else 'resend'}/" for number in range(PEOPLE)]
    with ThreadPoolExecutor(PEOPLE) as threads:
        answers = list(threads.map(lambda person, page, form: person.decide(page, form, why=WHY), people, pages, forms))
    assert Counter(status for status, _ in answers) == {HTTPStatus.FOUND: 1, HTTPStatus.CONFLICT: PEOPLE - 1}
    assert all("was changed meanwhile" in page for status, page in answers if status == HTTPStatus.CONFLICT)
    assert Resolution.objects.filter(email=email).count() == 1
