"""What pages show of Weir's sentences, which may quote strangers."""

from tests.cases import for_each
from weir.ops.templatetags.weir_ops import sentence


@for_each(
    ("text", "shown"),
    [
        ("Nothing is in its way.", "Nothing is in its way."),
        ("Type `manage.py sites resume a.example`.", "Type <code>manage.py sites resume a.example</code>."),
        ("`a` or `b`", "<code>a</code> or <code>b</code>"),
        ("It said `<b onclick=x>`", "It said <code>&lt;b onclick=x&gt;</code>"),
        ("<script>alert(1)</script> & `", "&lt;script&gt;alert(1)&lt;/script&gt; &amp; `"),
        ("two\nlines\x1b[2J, \u202eturned", "two lines\ufffd[2J, \ufffdturned"),
    ],
)
def test_a_sentence_is_text_and_its_commands_are_code(text: str, shown: str) -> None:
    """Whatever a stranger wrote is in it as text."""
    assert sentence(text) == shown
