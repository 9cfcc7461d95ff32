"""Filters: what a URL says is bounded, known, and said again in the links of the list."""

import re

from django.http import QueryDict
from django.template.loader import render_to_string

from tests.cases import for_each
from weir.ops.filters import Choice, PageFilters, Text

FILTERS = PageFilters(
    Text(name="search", label="Search"),
    Choice(name="state", label="State", values=("queued", "done")),
    Choice(name="sort", label="Order", values=lambda: ["name", "backlog"], default="backlog"),
)


def read(query: str) -> dict[str, str]:
    return dict(FILTERS.read(QueryDict(query)).values)


def test_without_a_query_each_field_has_its_default() -> None:
    """And there is no cursor."""
    assert read("") == {"search": "", "state": "", "sort": "backlog"}
    assert FILTERS.read(QueryDict("")).cursor == ""


def test_a_value_that_is_no_choice_counts_as_the_default() -> None:
    """None of them may be chosen, also where there is a default."""
    assert read("state=done&sort=name") == {"search": "", "state": "done", "sort": "name"}
    assert read("state=gone&sort=gone") == {"search": "", "state": "", "sort": "backlog"}
    assert read("sort=")["sort"] == ""


def test_a_text_is_bounded_and_fit_for_a_query() -> None:
    """PostgreSQL takes no zero bytes."""
    assert read("search=+a%00b+")["search"] == "ab"
    assert len(read("search=" + "x" * 600)["search"]) == 500
    assert len(FILTERS.read(QueryDict("after=" + "x" * 5_000)).cursor) == 4_000


def test_a_link_to_the_next_page_has_the_filters_and_its_own_cursor() -> None:
    """The first page has none."""
    chosen = FILTERS.read(QueryDict("search=a%26b&state=done&after=old"))
    assert chosen.cursor == "old"
    assert chosen.query("new") == "search=a%26b&state=done&sort=backlog&after=new"
    assert chosen.query() == "search=a%26b&state=done&sort=backlog"


def test_the_form_gets_its_fields_with_their_values() -> None:
    """In their order."""
    found = [(each.name, value) for each, value in FILTERS.read(QueryDict("search=a"))]
    assert found == [("search", "a"), ("state", ""), ("sort", "backlog")]


UNKNOWN = PageFilters(
    Choice(name="state", label="State", values=("unknown", "sent"), default="unknown", default_if_alone=True),
    Choice(name="kind", label="Kind", values=("news",)),
    Text(name="to", label="To"),
)


@for_each(
    ("query", "state", "said"),
    [
        ("", "unknown", "kind=&to="),
        ("state=-&kind=&to=", "unknown", "kind=&to="),
        ("state=-&kind=&to=+", "unknown", "kind=&to="),
        ("to=robin", "", "kind=&to=robin"),
        ("state=-&kind=&to=robin", "", "kind=&to=robin"),
        ("kind=news", "", "kind=news&to="),
        ("kind=gone", "unknown", "kind=&to="),
        ("state=unknown&to=robin", "unknown", "state=unknown&kind=&to=robin"),
        ("state=sent&to=robin", "sent", "state=sent&kind=&to=robin"),
        ("state=&to=", "", "state=&kind=&to="),
    ],
)
def test_a_default_holds_while_no_other_field_is_filled_in(query: str, state: str, said: str) -> None:
    """What the visitor chose stays. The next page says again what was said."""
    chosen = UNKNOWN.read(QueryDict(query))
    assert (chosen.values["state"], chosen.query()) == (state, said)
    assert UNKNOWN.read(QueryDict(chosen.query("x"))).values == chosen.values


@for_each(
    ("query", "selected"),
    [
        ("", "unknown; any if filtered"),
        ("to=robin", "unknown; any if filtered"),
        ("state=", "any"),
        ("state=unknown", "unknown"),
    ],
)
def test_the_form_sends_such_a_default_as_no_value(query: str, selected: str) -> None:
    """So it holds no more when the visitor fills in another field of the form."""
    form = render_to_string("weir/ops/filters.html", {"chosen": UNKNOWN.read(QueryDict(query))})
    options = re.findall(r'<option(?: value="([^"]*)")?( selected)?>([^<]*)', form.partition("</select>")[0])
    assert [label for _, _, label in options] == ["unknown; any if filtered", "any", "unknown", "sent"]
    assert options[0][0] == "-"
    assert [label for _, is_selected, label in options if is_selected] == [selected]


def test_a_list_in_which_nothing_is_found_may_have_any_value_of_a_field() -> None:
    """Where another field narrows it, too."""
    assert UNKNOWN.read(QueryDict("state=sent&to=a%26b&after=x")).query_with_any("state") == "state=&to=a%26b"
    assert UNKNOWN.read(QueryDict("state=sent")).query_with_any("state") == ""
    assert UNKNOWN.read(QueryDict("to=robin")).query_with_any("state") == ""
