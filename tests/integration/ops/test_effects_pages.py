"""The pages of effects: what they list and offer, who reads what, and what an act on them does."""

import csv
import io
import json
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from tests.integration.ops.test_acting import opened, signed_in
from tests.refunds import BLIND, PROBED
from weir.workers.effects import listing, queueing
from weir.workers.effects.listing import EffectFilters
from weir.workers.effects.models import Effect
from weir.workers.ledger import paging

pytestmark = pytest.mark.django_db(transaction=True)
ACTS, READS = "weir_effects.resolve_effect", "weir_effects.view_effect"
LOST: dict[str, Any] = {"state": "unknown", "phase": "begun", "last_reply": "<b>cut</b>", "ended_at": Now()}
WHY = {"why": "The provider lists it."}


def queued(*keys: str, kind: str = BLIND) -> list[Effect]:
    return [queueing.once(kind, key, context={"port": 1, "order": f"<i>{key}</i>"}) for key in keys]


def unknown(*keys: str, kind: str = BLIND) -> list[Effect]:
    """Queue effects, the first of which has been unknown for longest."""
    effects = queued(*keys, kind=kind)
    for number, effect in enumerate(effects, 1):
        Effect.objects.filter(pk=effect.pk).update(**LOST, claim_token=uuid4(), begun_at=f"2026-01-{number:02}T00:00Z")
    return effects


def test_the_list_begins_with_what_is_unknown_and_finds_by_state_kind_and_key() -> None:
    browser = signed_in()
    [lost], [waits, other] = unknown("4711"), queued("4712", "4713", kind=PROBED)
    Effect.objects.filter(pk=waits.pk).update(user_key="8")
    for query, expected in {
        "": {lost},
        "?state=pending": {waits, other},
        f"?state=&kind={PROBED}": {waits, other},
        f"?kind={PROBED}": {waits, other},
        "?key=4712": {waits},
        "?key=4711&state=pending": set(),
        "?user=8": {waits},
        "?user=8&state=unknown": set(),
        "?state=": {lost, waits, other},
    }.items():
        page = browser.get(f"/effects/{query}").text
        assert {effect for effect in (lost, waits, other) if f'"/effects/{effect.pk}/"' in page} == expected, query
    assert "&lt;b&gt;cut&lt;/b&gt;" in browser.get("/effects/").text
    assert browser.get("/effects/?after=nonsense").status_code == 400


def test_the_file_has_all_rows_and_no_results() -> None:
    """A result may say more than the page of the list."""
    effects = queued(*map(str, range(paging.A_PAGE + 5)))
    Effect.objects.filter(pk=effects[0].pk).update(result={"iban": "DE02"})
    answer: Any = signed_in().get("/effects/export.csv?state=pending")
    text = b"".join(answer.streaming_content).decode()
    assert {int(row["id"]) for row in csv.DictReader(io.StringIO(text[1:]))} == {effect.pk for effect in effects}
    assert "DE02" not in text


def test_a_page_of_a_kind_looks_at_so_many_effects_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index has the kind and the order of the list."""
    monkeypatch.setattr(paging, "LOOKED_AT", 10)
    [first, *_], [last] = queued(*map(str, range(25))), queued("last", kind=PROBED)
    for wanted in (EffectFilters(state="pending", kind=PROBED), EffectFilters(kind=BLIND)):
        found, cursor, pages = [], "", 0
        while pages == 0 or cursor:
            page = listing.page(wanted, cursor)
            found += page.rows
            cursor, pages = page.next, pages + 1
        assert (pages > 2, len(found)) == (True, 1 if wanted.kind == PROBED else 25)
        assert found[-1] == (last if wanted.kind == PROBED else first)


def test_a_page_offers_the_acts_that_its_state_and_kind_allow() -> None:
    """Only a kind with a probe can be asked."""
    browser = signed_in(ACTS)
    [blind], [probed], [waits] = unknown("1"), unknown("2", kind=PROBED), queued("3")
    for effect, expected in (
        (blind, {"done", "again", "give-up"}),
        (probed, {"done", "again", "ask", "give-up"}),
        (waits, {"cancel"}),
    ):
        page = browser.get(f"/effects/{effect.pk}/").text
        acts = {
            what for what in ("done", "again", "ask", "give-up", "cancel") if f"/effects/{effect.pk}/{what}/" in page
        }
        assert acts == expected
    assert "/done/" not in signed_in(name="eve").get(f"/effects/{blind.pk}/").text
    assert browser.get("/effects/99999/").status_code == 404
    assert browser.get("/effects/99999/done/").status_code == 409


def test_an_act_shows_its_effect_and_leads_to_the_next_unknown_one() -> None:
    """And the form shows what is known of it; a decision about what was seen before is refused."""
    browser = signed_in(ACTS)
    first, second = unknown("1", "2")
    path = f"/effects/{first.pk}/done/"
    seen = opened(browser, path)
    assert "&lt;b&gt;cut&lt;/b&gt;" in browser.get(path).text
    page = browser.get(browser.post(path, {**seen, **WHY})["Location"]).text
    assert "State: done" in page
    assert f'<a href="/effects/{second.pk}/">The next unknown effect</a>' in page
    assert "ada: it happened. The provider lists it." in page
    answer = browser.post(path, {**seen, **WHY})
    assert (answer.status_code, "was changed meanwhile" in answer.text) == (409, True)
    path = f"/effects/{second.pk}/give-up/"
    page = browser.get(browser.post(path, {**opened(browser, path), **WHY})["Location"]).text
    assert "No other effect is unknown." in page
    assert f'href="/effects/{second.pk}/"' in browser.get("/audit/").text


def test_context_and_result_are_for_whom_may_view_effects() -> None:
    [effect] = queued("1")
    Effect.objects.update(result={"iban": "DE02"})
    page = signed_in().get(f"/effects/{effect.pk}/").text
    assert (READS in page, "DE02" in page, "order" in page) == (True, False, False)
    page = signed_in(READS, name="robin").get(f"/effects/{effect.pk}/").text
    assert ("DE02" in page, "&lt;i&gt;1&lt;/i&gt;" in page) == (True, True)


def test_search_finds_an_effect_by_its_number_and_by_its_key() -> None:
    [effect] = queued("order-4711")
    browser = signed_in()
    for text in ("order-4711", f"#{effect.pk}"):
        assert browser.get("/search/", {"q": text})["Location"] == f"/effects/{effect.pk}/"


def test_what_a_program_reads_of_a_kind_has_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The same that the page names, so that a pause of something that was changed is refused."""
    call_command("effects", "kinds", "--json")
    [kind] = [each for each in json.loads(capsys.readouterr().out)["kinds"] if each["kind"] == BLIND]
    said = ("--who", "eve", "--why", "It is wrong.")
    call_command("effects", "pause", BLIND, *said)
    with pytest.raises(CommandError, match="was changed meanwhile"):
        call_command("effects", "resume", BLIND, "--seen", kind["version"], *said)
    page = signed_in(ACTS).get("/effects/").text
    assert "It is wrong." in page
    assert f"/effects/kinds/{BLIND}/resume/" in page
