"""Links to files of the checkout lead to a page that shows the file, so that the same links work on a code host.

1. MyST takes `[settings.py](../../project/settings.py)` for a download; here it becomes a link to `source/...`.
   A link to a picture stays a download.
2. When the pages of the site are written, each file that one of them names gets its page.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata

ROOT = Path(__file__).resolve().parents[2]
PICTURES = {".jpg", ".png", ".svg"}
LANGUAGES = {".py": "python", ".sql": "postgresql"}  # by the end of a file's name


class SourceLinks(SphinxTransform):
    """Turns downloads of files in the checkout into links to their pages."""

    default_priority = 500

    def apply(self, **_arguments: Any) -> None:
        """Change the nodes; the files are noted in the environment, by the page that names them."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        for node in list(self.document.findall(addnodes.download_reference)):
            path = (here / node["reftarget"]).resolve()
            if path.is_relative_to(ROOT) and path.is_file() and path.suffix not in PICTURES:
                name = str(path.relative_to(ROOT))
                _sources(self.env).setdefault(self.env.docname, set()).add(name)
                node.replace_self(nodes.reference("", "", *node.children, internal=True, source=name, refuri=""))


def _sources(env: BuildEnvironment) -> dict[str, set[str]]:
    noted: dict[str, set[str]] = vars(env).setdefault("weir_sources", {})  # stored with the environment
    return noted


def _forget(_app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _sources(env).pop(docname, None)


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in doctree.findall(nodes.reference):
        if "source" in node:
            node["refuri"] = app.builder.get_relative_uri(docname, f"source/{node['source']}")


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each file that is linked to."""
    if not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    for name in sorted(set().union(*_sources(app.env).values())):
        text = (ROOT / name).read_text(encoding="utf-8")
        block = app.builder.highlighter.highlight_block(text, LANGUAGES.get(Path(name).suffix, "text"), force=True)
        page = {"title": name, "body": f"<h1>{name}</h1>{block}", "toctree": _no_toctree}
        yield f"source/{name}", page, "page.html"


def _no_toctree(**_options: object) -> str:
    """Leave the tree of all pages out, which takes longer to make than the page of a file."""
    return ""


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register what turns links, and what writes the pages."""
    app.add_transform(SourceLinks)
    app.connect("env-purge-doc", _forget)
    app.connect("doctree-resolved", _resolve)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": False}
