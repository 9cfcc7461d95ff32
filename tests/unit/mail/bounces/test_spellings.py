"""One address has many spellings, and an equal one among them."""

from tests.cases import for_each
from weir.workers.mail.bounces.spellings import names, spellings


@for_each(
    ("stored", "written"),
    [
        ("kim@xn--bcher-kva.example", "kim@b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example"),
        ("kim@xn--bcher-kva.example", "kim@B\N{LATIN CAPITAL LETTER U WITH DIAERESIS}CHER.example"),
        ("kim@xn--bcher-kva.example", "kim@b\\x{FC}cher.example"),
        ("k\N{LATIN SMALL LETTER I WITH DIAERESIS}m@example.com", "k\\x{EF}m@example.com"),
        ("kim@example.com", "kim@example.com."),
        ("kim@example.com", "<Kim@Example.COM>"),
        ("kim@example.com", '"kim"@example.com'),
        ("kim+shop@example.com", "kim+2Bshop@example.com"),
        ("kim+2bshop@example.com", "kim+2Bshop@example.com"),
        ('"kim shop"@example.com', '"kim shop"@example.com'),
    ],
)
def test_an_address_is_recognised_however_it_is_spelt(stored: str, written: str) -> None:
    """U-labels, escapes, case, a dot at the end, quotes that are not needed."""
    assert spellings(stored) & spellings(written)


@for_each(
    ("stored", "written"),
    [
        ("kim@example.com", "kim@example.org"),
        ("kim@example.com", "im@example.com"),
        ("kim@example.com", ""),
        ("kim@example.com", "\\x{FFFFFF}" * 400),
        ("", ""),
    ],
)
def test_another_address_is_another(stored: str, written: str) -> None:
    """Nor is what is no address at all equal to anything, or an error."""
    assert not spellings(stored) & spellings(written)


def test_all_that_looks_like_an_address_or_a_message_id_is_found_in_its_order() -> None:
    """Without what stands around it."""
    text = "Kim <kim@a.example>, (was: x.y-1@b.example), 'z@c.example': kim@a.example @ a@"
    assert names(text) == ["kim@a.example", "x.y-1@b.example", "z@c.example"]
