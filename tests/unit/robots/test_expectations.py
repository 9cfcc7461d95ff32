"""Published expectations: what RFC 9309, Google's parser and Protego say that a robots.txt means."""

from tests.cases import for_each
from tests.unit.robots.expectations import DIFFERING, DIFFERING_ALLOWED, GOOGLE, PROTEGO, RFC, Case
from weir.workers.fetches.robots.rules import Rules, text_of

SITE = "https://site.example"


def wrong(cases: list[Case]) -> list[str]:
    """Return what is not as these cases have it: file, crawler and path."""
    judged = [
        (case.name, crawler, path, is_allowed, Rules(text_of(case.text.encode()), crawler).allows(SITE + path))
        for case in cases
        for said, is_allowed in ((case.allowed, True), (case.refused, False))
        for crawler, paths in said.items()
        for path in paths
    ]
    assert judged
    return [
        f"{name}: {crawler} {path[:60]}" for name, crawler, path, is_allowed, is_said in judged if is_said != is_allowed
    ]


@for_each("cases", [RFC, GOOGLE, PROTEGO], ids=["RFC 9309", "Google", "Protego"])
def test_a_file_means_what_its_authors_expect(cases: list[Case]) -> None:
    """The decisions of those who wrote the rules down, and of the parsers that most files were written for."""
    assert wrong(cases) == []


def test_where_parsers_differ_the_rfc_decides() -> None:
    """Each of these is on record, with its reason."""
    for _, rule, path, reason in DIFFERING:
        assert not Rules(f"user-agent: *\ndisallow: {rule}", "a").allows(SITE + path), reason
    for _, rule, path, reason in DIFFERING_ALLOWED:
        assert Rules(f"user-agent: *\ndisallow: {rule}", "a").allows(SITE + path), reason
