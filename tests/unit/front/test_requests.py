"""So many requests at once, and so many bytes, whoever is slow."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from project.front import answers, bodies, heads, requests
from project.front.heads import CheckedHeads
from project.front.refusals import Message, Scope
from project.front.requests import BoundedRequests
from project.front.room import EACH
from tests.unit.front import asgi
from tests.unit.front.asgi import Client, Counting, scope

MIB = 2**20
MOST = 2 * MIB


def bounded(application: Counting, at_once: int = 2) -> BoundedRequests:
    return BoundedRequests(application, at_once=at_once, most_bytes=MOST)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests, "PATIENCE_S", 0.15)
        monkeypatch.setattr(bodies, "MOST_S", 0.2)
        monkeypatch.setattr(heads, "MOST_S", 0.2)
        asyncio.run(asyncio.wait_for(test(), 30))

    return run


def ask(front: BoundedRequests, asked: Scope, client: Client) -> "asyncio.Task[None]":
    return asgi.ask(CheckedHeads(front), asked, client)


def held(application: BoundedRequests) -> int:
    return application._means.room.held


@in_loop
async def test_what_comes_while_all_turns_are_taken_is_told_when_to_come_again() -> None:
    application = Counting()
    front = bounded(application)
    clients = [Client([b""]) for _ in range(10)]
    tasks = [ask(front, scope("/page"), client) for client in clients]
    await asyncio.gather(*tasks[2:])
    assert [client.status for client in clients] == [0, 0] + [503] * 8
    assert all(client.headers[b"retry-after"] == b"1" for client in clients[2:])
    health = Client([b""])
    asked = ask(front, scope("/readyz"), health)
    await asyncio.sleep(0)
    application.may_end.set()
    await asyncio.gather(*tasks, asked)
    assert application.most == 3
    assert [client.status for client in [*clients[:2], health]] == [200] * 3
    assert held(front) == 0


@in_loop
async def test_health_is_asked_whatever_the_others_hold() -> None:
    """And with a body, which nobody reads; nor do those that ask for it take the room of others."""
    application = Counting()
    front = bounded(application, at_once=10_000)
    clients = [Client([b""]) for _ in range(requests.ROOM // EACH)]
    tasks = [ask(front, scope("/page"), client) for client in clients]
    await asyncio.sleep(0)
    health = [Client([b"x" * MIB], ends=False) for _ in range(2 * requests.HEALTH_ROOM // EACH)]
    asked = [ask(front, scope("/healthz", (b"content-length", str(9 * MIB).encode())), client) for client in health]
    await asyncio.sleep(0)
    application.may_end.set()
    await asyncio.gather(*tasks, *asked)
    assert {client.status for client in clients} == {200}
    assert [client.status for client in health] == [200] * (len(health) // 2) + [503] * (len(health) // 2)
    assert (held(front), front._of_health.room.held) == (0, 0)


@in_loop
async def test_unfinished_bodies_take_no_turn_and_end_in_time() -> None:
    application = Counting()
    application.may_end.set()
    front = bounded(application)
    length = (b"content-length", b"100")
    slow = [Client([b"x"], ends=False) for _ in range(50)]
    tasks = [ask(front, scope("/page", length), client) for client in slow]
    await asyncio.sleep(0)
    quick = Client([b"y" * 100])
    await ask(front, scope("/page", length), quick)
    assert (quick.status, application.bodies) == (200, [b"y" * 100])
    await asyncio.gather(*tasks)
    assert {client.status for client in slow} == {408}
    assert held(front) == 0


@in_loop
async def test_a_length_is_a_number_however_it_is_written() -> None:
    """RFC 9112, 6.2: one or more digits. One of thousands of them is not computed."""
    application = Counting()
    application.may_end.set()
    statuses = []
    for length in (b"0" * 5_000 + b"3", b"0", b"00000000", b"9" * 5_000, str(MOST + 1).encode(), b"3a", b"-3", b"+3"):
        client = Client([b"abc"])
        await ask(bounded(application), scope("/page", (b"content-length", length)), client)
        statuses.append(client.status)
    assert statuses == [200, 200, 200, 413, 413, 400, 400, 400]


@in_loop
async def test_the_oldest_unfinished_body_gives_way() -> None:
    application = Counting()
    application.may_end.set()
    bodies.MOST_S = 60.0  # type: ignore[misc]  # of a test; `in_loop` puts it back
    front = bounded(application)
    length = (b"content-length", str(MOST).encode())
    slow = [Client([b"x" * (MOST - 1)], ends=False) for _ in range(40)]
    tasks = []
    for client in slow:
        tasks.append(ask(front, scope("/page", length), client))
        await asyncio.sleep(0)
        assert held(front) <= requests.ROOM
    quick = Client([b"y" * MOST])
    await ask(front, scope("/page", length), quick)
    assert quick.status == 200
    assert [client.status for client in slow[:20]] == [503] * 20
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert held(front) == 0


@in_loop
async def test_what_has_no_end_has_no_room() -> None:
    """Requests that wait for nobody hold EACH at least: so many of them, and no more."""
    application = Counting()
    front = bounded(application, at_once=10_000)
    clients = [Client([b""]) for _ in range(requests.ROOM // EACH + 5)]
    tasks = [ask(front, scope("/page"), client) for client in clients]
    await asyncio.gather(*tasks[-5:])
    assert [client.status for client in clients[-5:]] == [503] * 5
    application.may_end.set()
    await asyncio.gather(*tasks)
    assert held(front) == 0


@in_loop
async def test_who_does_not_read_holds_no_turn_and_is_given_up() -> None:
    application = Counting([b"z" * 65_536] * 20)
    application.may_end.set()
    front = bounded(application)
    slow = [Client([b""], reads=False) for _ in range(30)]
    tasks = [ask(front, scope("/page"), client) for client in slow]
    quick = Client([b""])
    await ask(front, scope("/page"), quick)
    assert (quick.status, len(quick.sent)) == (200, 21)
    await asyncio.gather(*tasks)
    assert (application.now, held(front)) == (0, 0)


@in_loop
async def test_an_answer_larger_than_what_is_made_ahead_arrives_whole() -> None:
    parts = [bytes([number]) * 65_536 for number in range(80)]  # 5 MiB
    application = Counting(parts)
    application.may_end.set()
    client = Client([b""], reads=False)
    front = bounded(application)
    task = ask(front, scope("/page"), client)
    for _ in range(10 * len(parts)):  # turns of the loop: more than all parts need
        await asyncio.sleep(0)
    assert application.now == 1, "it waits for the client where so much is left"
    assert held(front) == EACH + answers.MOST_BYTES
    client.reading.set()
    await task
    assert [message["body"] for message in client.sent[1:]] == parts


@in_loop
async def test_who_reads_nothing_of_a_large_answer_is_given_up() -> None:
    """What makes it is told that there is no client; and nobody else of anything."""
    application = Counting([b"z" * 65_536] * 80)
    application.may_end.set()
    front = bounded(application)
    await ask(front, scope("/page"), Client([b""], reads=False))
    assert (application.now, held(front)) == (0, 0)


@in_loop
async def test_a_body_that_does_not_say_how_long_it_is_has_the_same_bound() -> None:
    client = Client([b"x" * MIB, b"x" * MIB, b"x"])
    await ask(bounded(Counting()), scope("/page", (b"transfer-encoding", b"chunked")), client)
    assert client.status == 413


@in_loop
async def test_nothing_is_read_for_the_api_of_who_shows_no_token() -> None:
    application = Counting()
    application.may_end.set()
    client = Client([b"x", b"y"], ends=False)
    await ask(bounded(application), scope("/api/v1/fetches", (b"content-length", b"3")), client)
    assert (client.status, application.bodies, client.unread) == (200, [b""], 2)


@in_loop
async def test_who_waits_for_the_end_of_a_client_gets_nothing_else() -> None:
    left: list[Message] = [{"type": "http.request"}, {"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return left.pop(0)

    given = bodies.again(b"whole", receive)
    assert [await given(), await given()] == [
        {"type": "http.request", "body": b"whole", "more_body": False},
        {"type": "http.disconnect"},
    ]


@in_loop
async def test_whatever_comes_all_room_is_given_back() -> None:
    """Bodies and answers of any size, clients of any speed that stay or go: 500 of them."""
    chance = random.Random(39)  # noqa: S311  no secret

    async def application(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.sleep(chance.choice([0, 0, 0.01]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for left in range(chance.randrange(40), -1, -1):
            await send({"type": "http.response.body", "body": b"z" * 65_536, "more_body": bool(left)})

    front = BoundedRequests(application, at_once=5, most_bytes=MOST)
    length = (b"content-length", str(MOST).encode())
    tasks = []
    for _ in range(500):
        parts = [b"x" * chance.randrange(MOST // 4) for _ in range(chance.randrange(1, 5))]
        client = Client(parts, ends=chance.random() < 0.7, reads=chance.random() < 0.7)
        tasks.append(ask(front, scope("/page", length), client))
        await asyncio.sleep(chance.choice([0, 0, 0.005]))
        assert 0 <= held(front) <= requests.ROOM
        if chance.random() < 0.1:
            chance.choice(tasks).cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(error) for error in ended} <= {type(None), asyncio.CancelledError}
    assert held(front) == 0
    assert front._means.turns._value == 5
