"""A page that is nothing but a link to a Markdown file of the top folder shows that file.

So `[Changelog](../CHANGELOG.md)` is a link on a code host, and the changelog itself on the site. Links in the file
begin in its own folder; here they are made to begin in this one.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

ROOT = Path(__file__).resolve().parents[2]
ONLY_A_LINK = re.compile(r"\[[^\]]+\]\(\.\./([A-Z]+\.md)\)\s*")
RELATIVE = re.compile(r"\]\((?!\w+:|#)")


def _show(app: Sphinx, _docname: str, content: list[str]) -> None:
    """Put the file in the place of the link to it."""
    if link := ONLY_A_LINK.fullmatch(content[0]):
        file = ROOT / link[1]
        app.env.note_dependency(str(file))
        content[0] = RELATIVE.sub("](../", file.read_text(encoding="utf-8"))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register what changes the text of a page when it is read."""
    app.connect("source-read", _show)
    return {"parallel_read_safe": True}
