"""Programs see effects, and say what became of them, as operators do."""

from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import InThreads
from tests.programs import Program, token
from tests.refunds import BLIND, PROBED
from weir.workers.audit.models import Door, Entry
from weir.workers.effects import queueing
from weir.workers.effects.models import Effect
from weir.workers.events import log

pytestmark = pytest.mark.django_db(transaction=True)
WHY = {"why": "The provider lists it."}


@pytest.fixture
def program(messages: list[object]) -> Program:  # noqa: ARG001  asked for their effect
    """Return a program that may see and resolve effects."""
    return Program(token("weir_effects.view_effect", "weir_effects.resolve_effect"))


def queued(*keys: str, kind: str = BLIND) -> list[Effect]:
    return [queueing.once(kind, key, context={"port": 1, "order": key}) for key in keys]


def unknown(key: str, kind: str = BLIND) -> Effect:
    [effect] = queued(key, kind=kind)
    lost: dict[str, Any] = {"state": "unknown", "phase": "begun", "last_reply": "cut", "claim_token": uuid4()}
    Effect.objects.filter(pk=effect.pk).update(**lost, begun_at=Now(), ended_at=Now())
    effect.refresh_from_db()
    return effect


def test_the_list_finds_by_state_kind_and_key_and_goes_on(program: Program) -> None:
    """One kind and key is one effect."""
    lost, [waits, other] = unknown("4711"), queued("4711", "4712", kind=PROBED)
    for query, expected in {
        "": [other, waits, lost],
        "?state=pending": [waits, other],
        f"?kind={BLIND}": [lost],
        "?key=4711": [waits, lost],
        f"?kind={PROBED}&key=4711": [waits],
        "?state=done": [],
    }.items():
        page = program.call("GET", f"/effects{query}").json()
        assert ([row["id"] for row in page["effects"]], page["next"]) == ([each.pk for each in expected], None), query
    many = queued(*map(str, range(101)))
    first = program.call("GET", "/effects?state=pending").json()
    second = program.call("GET", f"/effects?state=pending&after={first['next']}").json()
    ids = [row["id"] for page in (first, second) for row in page["effects"]]
    assert ids == [waits.pk, other.pk, *(each.pk for each in many)]


def test_one_effect_has_what_it_was_asked_to_do_and_what_is_in_its_way(program: Program) -> None:
    lost = unknown("4711")
    Effect.objects.filter(pk=lost.pk).update(result={"iban": "DE02"})
    [row] = program.call("GET", "/effects").json()["effects"]
    shown = program.call("GET", f"/effects/{lost.pk}").json()
    assert row.items() <= shown.items()
    assert (row["state"], row["idempotency_key"], "DE02" in str(row)) == ("unknown", str(lost.idempotency_key), False)
    assert (shown["context"], shown["result"]) == ({"port": 1, "order": "4711"}, {"iban": "DE02"})
    assert [each["kind"] for each in shown["blockers"]] == ["unknown"]


def test_a_decision_about_what_was_seen_is_recorded_once(program: Program) -> None:
    """Of two that saw the same version, the second is refused; a repeated request is not a second one."""
    lost = unknown("4711")
    path = f"/effects/{lost.pk}"
    seen = {"If-Match": program.call("GET", path).headers["ETag"]}
    asked = program.call("POST", f"{path}/resolutions", {"act": "ask", **WHY}, headers=seen)
    assert (asked.status_code, asked.json()["type"]) == (409, "/api/problems/not-in-this-state"), "there is no probe"
    wanted, keyed = {"act": "give up", **WHY}, {**seen, "Idempotency-Key": "17"}
    first, again = (program.call("POST", f"{path}/resolutions", wanted, headers=keyed) for _ in range(2))
    assert first.json() == again.json() == {"effect": lost.pk, "state": "failed"}
    assert (first.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    late = program.call("POST", f"{path}/resolutions", {"act": "again", **WHY}, headers=seen)
    assert (late.status_code, late.json()["type"]) == (412, "/api/problems/changed")
    [said] = program.call("GET", path).json()["resolutions"]
    assert (said["act"], said["who"], said["why"], said["state"]) == ("give up", "shop", WHY["why"], "unknown")
    entry = Entry.objects.latest("pk")
    assert (entry.action, entry.actor, entry.door) == ("effects.give_up", "shop", Door.API)


def test_of_two_programs_that_decide_at_once_one_does(program: Program, in_threads: InThreads) -> None:
    [effect] = queued("4711")
    path, wanted = f"/effects/{effect.pk}/resolutions", {"act": "cancel", **WHY}
    answers = in_threads(4, lambda _number: Program(program.secret).call("POST", path, wanted))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert effect.resolutions.count() == 1


def test_a_kind_is_paused_and_resumed_as_it_was_seen(program: Program) -> None:
    def kind() -> dict[str, Any]:
        kinds: list[dict[str, Any]] = program.call("GET", "/effect-kinds").json()["kinds"]
        return next(each for each in kinds if each["kind"] == PROBED)

    before, path = kind(), f"/effect-kinds/{PROBED}/pause"
    assert (before["settled_by"], before["at_once"], before["paused_at"], before["who"]) == ("probe", 4, None, "")
    seen = {"If-Match": before["etag"]}
    assert program.call("PUT", path, {"why": "It is wrong."}, headers=seen).status_code == 204
    paused = kind()
    assert (paused["who"], paused["why"], paused["paused_at"] is None) == ("shop", "It is wrong.", False)
    assert program.call("DELETE", f"{path}?why=right", headers=seen).status_code == 412
    assert program.call("DELETE", f"{path}?why=right", headers={"If-Match": paused["etag"]}).status_code == 204
    assert kind() == before


def test_a_program_learns_of_ends(program: Program, settings: Settings) -> None:
    settings.WEIR_EVENT_RETENTION = 86_400.0
    log.keep()
    begun = program.call("GET", "/effects/ended?after=newest").json()
    [effect] = queued("4711")
    program.call("POST", f"/effects/{effect.pk}/resolutions", {"act": "cancel", **WHY})
    [event] = program.call("GET", f"/effects/ended?after={begun['next']}").json()["events"]
    expected = {"type": "effect.cancelled", "effect": effect.pk, "state": "cancelled", "kind": BLIND, "key": "4711"}
    assert expected.items() <= event.items()
