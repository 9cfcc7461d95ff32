"""If-Match: which version a change must find, as RFC 9110 writes it and as proxies change it on its way."""

import pytest

from tests.cases import for_each
from weir.api.http import etags
from weir.api.http.problems import CHANGED, MALFORMED, Problem

VERSION = "0a1b"
ANY = [etags.ANY, f" {etags.ANY} "]
THIS = [
    '"0a1b"',
    ' "0a1b" ',
    'W/"0a1b"',  # as nginx and GZipMiddleware make it of a compressed answer
    '"0a1b-gzip"',  # as Apache does
    'W/"0a1b-br"',
    '"other", "0a1b"',
    '"other","0a1b"',
    ',, "other" ,\t, "0a1b", ',  # elements of a list may be empty
    '"a,b", "0a1b"',
    ", ".join(f'"{number:032x}"' for number in range(40)) + ', "0a1b"',
]
OTHERS = ['"other"', '""', 'W/"x"', '"0a1b-"', '"0a1b-GZIP"', '"gzip-0a1b"', '"caf\xe9"', '"' + "a" * 65 + '"']
MALFORMED_ONES = ["0a1b", '"', '"0a1b', '"a" "b"', '"a""b"', 'w/"0a1b"', 'W/ "0a1b"', "**", '*, "0a1b"', ",", '"a b"']


@for_each("exists", [True, False])
def test_a_tag_that_names_another_version_or_is_none_is_refused(exists: bool) -> None:
    wrong = {**dict.fromkeys(OTHERS, CHANGED), **dict.fromkeys(MALFORMED_ONES, MALFORMED)}
    for if_match, kind in wrong.items():
        with pytest.raises(Problem) as refused:
            etags.seen_if_required(if_match, VERSION, exists=exists)
        assert refused.value.kind == kind, if_match


def test_a_tag_names_its_version_whatever_became_of_it_on_its_way() -> None:
    for if_match in THIS:
        assert etags.seen_if_required(if_match, VERSION, exists=True) == VERSION, if_match
        assert etags.seen_if_given(if_match, VERSION) == VERSION, if_match


def test_any_version_may_be_changed_if_the_header_says_so() -> None:
    """Without the header, too, where it is not needed."""
    assert [etags.seen_if_required(if_match, VERSION, exists=True) for if_match in ANY] == [None, None]
    assert [etags.seen_if_given(if_match, VERSION) for if_match in (*ANY, "")] == [None] * 3
