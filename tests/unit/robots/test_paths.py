"""The form in which paths are compared: RFC 9309's table (2.2.2), and what follows from its sentences."""

import re

from hypothesis import given
from hypothesis import strategies as st

from weir.workers.fetches.robots.paths import path_of
from weir.workers.fetches.robots.rules import MAX_BYTES, Rules, text_of

SITE = "https://site.example"


def refuses(rule: str, path: str) -> bool:
    """Tell whether a rule that disallows this is about the path."""
    return not Rules(text_of(f"User-agent: *\nDisallow: {rule}\n".encode()), "weir").allows(SITE + path)


def test_the_rows_of_the_rfcs_table_match_in_each_of_their_spellings() -> None:
    """What a path is, how it is written in a URL, and what it is compared with: each of the three means the same."""
    table = [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%62%61%7A", "/foo/bar/%62%61%7A", "/foo/bar/baz"),
    ]
    for row in table:
        for rule in row:
            for path in row:
                assert refuses(rule, path), (rule, path)
                assert refuses(f"{rule}$", path), (rule, path)
                assert refuses(f"*{rule[4:]}", path), (rule, path)


def test_each_octet_is_the_same_in_each_spelling() -> None:
    """As it is, or escaped with small or capital digits; but for what divides a path, and for special characters."""
    for code in range(33, 127):
        plain, small, capital = chr(code), f"%{code:02x}", f"%{code:02X}"
        if plain in "#%*$":  # never plain in both: a fragment or comment, an escape, and special characters
            continue
        spellings = [small, capital] if plain in "/?" else [plain, small, capital]
        for rule in spellings:
            for path in spellings:
                assert refuses(f"/a{rule}b$", f"/a{path}b"), (rule, path)
                assert refuses(f"/a?a{rule}b$", f"/a?a{path}b"), (rule, path)
        for other in range(33, 127):
            if other != code and chr(other) not in "#*$%":
                assert not refuses(f"/a%{code:02X}b", f"/a%{other:02X}b"), (code, other)


def test_what_divides_a_path_is_not_what_is_escaped_there() -> None:
    """`%2F` in a path is a part of a name; so is `%3F`. In a query, where both are data, they are not told apart."""
    for rule, path, is_refused in [
        ("/a%2Fb", "/a/b", False),
        ("/a/b", "/a%2Fb", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/a?b", "/a%3Fb", False),
        ("/a%3Fb", "/a?b", False),
        ("/a?b%2Fc", "/a?b/c", True),
        ("/a?b/c", "/a?b%2Fc", True),
        ("/a?b%3Fc", "/a?b?c", True),
        ("/*%2Fb", "/a/b", False),
        ("/*%2Fb", "/a?c=/b", True),
        ("/*%2Fb", "/a?c=%2fb", True),
        ("/*/b", "/a%2Fb", False),
        ("/*/b", "/a?c=%2Fb", True),
        ("/*%2Fb$", "/a?c=/b", True),
        ("/*%2Fb$", "/a?c=/bc", False),
        ("/*%2Fb$", "/a/b", False),
        ("/*b?c", "/a?b?c", True),
        ("/*b?c", "/a?b%3fc", True),
        ("/*%2F*%2F", "/a%2Fb?c=/d", True),
        ("/*%2F*%2F*%2F", "/a%2Fb?c=/d", False),
    ]:
        assert refuses(rule, path) is is_refused, (rule, path)


def test_special_characters_stand_for_themselves_where_they_are_escaped_or_not_special() -> None:
    """RFC 9309 (2.2.3): `$` is special at the end only, and `*` everywhere."""
    for rule, path, is_refused in [
        ("/a$", "/a", True),
        ("/a$", "/a$", False),
        ("/a$", "/a$b", False),
        ("/a$", "/ab", False),
        ("/a$b", "/a$b", True),
        ("/a$b", "/a%24bc", True),
        ("/a$b", "/a", False),
        ("/a$$", "/a$", True),
        ("/a$$", "/a", False),
        ("/a%24", "/a$b", True),
        ("/a%24$", "/a$b", False),
        ("/a%24$", "/a$", True),
        ("/*a$", "/ba", True),
        ("/*a$", "/ba$", False),
        ("/*$b", "/a$bc", True),
        ("/a*$", "/abc", True),
        ("/a%2Ab", "/a*b", True),
        ("/a%2Ab", "/acb", False),
        ("/a*b", "/a*b", True),
        ("*", "/", True),
        ("*$", "/a?b", True),
        ("$", "/", False),
        ("**b", "/ab", True),
        ("/a**", "/a", True),
    ]:
        assert refuses(rule, path) is is_refused, (rule, path)


def test_what_is_no_escape_is_a_percent_sign() -> None:
    """So do servers read it. A blank, and what is beyond ASCII, is escaped in the rule as well."""
    for rule, path in [
        ("/100%", "/100%25"), ("/100%", "/100%"), ("/100%25", "/100%"), ("/%zz", "/%25zz"), ("/%%41", "/%25A"),
        ("/%%%", "/%25%25%"), ("/%4", "/%254"), ("/a b", "/a%20b"), ("/a|b", "/a%7Cb"), ("/\\", "/%5C"),
        ("/é", "/%c3%a9"),
    ]:  # fmt: skip
        assert refuses(rule, path), (rule, path)
        assert not refuses(f"{rule}x", path), (rule, path)


def test_bytes_that_are_not_utf_8_are_what_they_are_in_a_url() -> None:
    """A file in Latin-1 is about URLs in Latin-1."""
    text = text_of("User-agent: *\nDisallow: /café\n".encode("latin-1"))
    assert not Rules(text, "weir").allows(f"{SITE}/caf%E9")
    assert Rules(text, "weir").allows(f"{SITE}/caf%C3%A9")


def test_a_file_in_utf_16_is_read_by_its_mark() -> None:
    """RFC 9309 wants UTF-8, but a site that disallows everything means it. What is cut ends with a whole line."""
    said = "User-agent: *\nDisallow: /café\n# ਊ\nDisallow: /b\n"
    for coding, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        long = said + "Disallow: /c" * (MAX_BYTES // 2)
        for text in (said, long):
            rules = Rules(text_of(mark + text.encode(coding)), "weir")
            refused = [path for path in ("/caf%C3%A9", "/b", "/c", "/") if not rules.allows(SITE + path)]
            assert refused == ["/caf%C3%A9", "/b"], coding


def test_a_mark_without_utf_16_behind_it_is_no_reason_to_read_nothing() -> None:
    rules = Rules(text_of(b"\xff\xfe\nUser-agent: *\nDisallow: /b\n"), "weir")
    assert not rules.allows(f"{SITE}/b")


def test_the_path_is_that_of_the_url() -> None:
    """From behind the authority to the fragment, and at least a slash."""
    for url, path in [
        ("http://a.example", "/"),
        ("http://a.example/", "/"),
        ("http://a.example?b=/c", "/?b=/c"),
        ("http://a.example#/b", "/"),
        ("http://a.example:8080//b/c", "//b/c"),
        ("http://[::1]/a?b=http://c/#d/?", "/a?b=http://c/"),
        ("http://a.example/%7Ea;b=%3B", "/~a;b=;"),
    ]:
        assert path_of(url) == path


# --- by definition ------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)


def octets(text: str) -> list[tuple[int, bool]]:
    """Return the octets that a path stands for, each with whether it is written as an escape."""
    found = []
    for token in TOKEN.findall(text):
        if len(token) == 3:
            found.append((int(token[1:], 16), True))
        else:
            found.extend((octet, False) for octet in token.encode())
    return found


def is_about(rule: str, path: str) -> bool:
    """Tell the same by trying, octet for octet, all places to which a beginning of the rule may lead."""
    said = octets(path)
    query_at = next((place for place, octet in enumerate(said) if octet == (ord("?"), False)), len(said))
    ends = {0}
    is_anchored = rule.endswith("$")
    for octet, is_escaped in octets(rule[:-1] if is_anchored else rule):
        if (octet, is_escaped) == (ord("*"), False):
            ends = set(range(min(ends), len(said) + 1)) if ends else ends
            continue
        ends = {
            place + 1
            for place in ends
            if place < len(said)
            and said[place][0] == octet
            and (place > query_at or chr(octet) not in "/?" or said[place][1] == is_escaped)
        }
    return len(said) in ends if is_anchored else bool(ends)


PIECES = [
    "a", "b", "ab", "/", "?", "$", "%2F", "%2f", "%3F", "%2a", "%24", "%61", "%", "%%", "é", "%C3%A9", "%c3", ":",
    "%3a", "<", "%3C", "=",
]  # fmt: skip


@given(
    rule=st.lists(st.sampled_from([*PIECES, "*", "*", "*"]), max_size=9).map("".join),
    path=st.lists(st.sampled_from([*PIECES, "*"]), max_size=12).map("".join),
    start=st.sampled_from(["/", "*", "/*"]),
)
def test_rules_match_as_they_do_octet_for_octet(rule: str, path: str, start: str) -> None:
    """Whatever is written, and however it is looked up: the same as by definition."""
    rule, path = start + rule, "/" + path
    assert refuses(rule, path) is is_about(rule, path)
