"""The User-Agent: its product token, and whether it names a contact."""

from tests.cases import for_each
from weir.workers.fetches.robots.user_agent import has_contact, product_token


@for_each(
    ("user_agent", "token"),
    [
        ("Weir/0.1", "Weir"),
        ("ShopBot/2.0 (+https://shop.example/bot)", "ShopBot"),
        ("shop-bot_x (bot@shop.example)", "shop-bot_x"),
        ("  ShopBot", "ShopBot"),
        ("", ""),
    ],
)
def test_the_product_token_stands_before_the_version(user_agent: str, token: str) -> None:
    """The name alone, without version and comment."""
    assert product_token(user_agent) == token


@for_each(
    ("user_agent", "expected"),
    [
        ("ShopBot/2.0 (+https://shop.example/bot)", True),
        ("ShopBot/2.0 (bot@shop.example)", True),
        ("ShopBot/2.0 (mailto:bot@shop.example)", True),
        ("Weir/0.1", False),
        ("", False),
        ("ShopBot/2.0 (https://localhost/)", False),
        ("ShopBot/2.0 (call us)", False),
        ("bot@home/1.0", False),
    ],
)
def test_a_contact_is_a_web_page_or_an_e_mail_address(user_agent: str, expected: bool) -> None:
    """What names neither leaves a site's operator with nothing but a block."""
    assert has_contact(user_agent) is expected
