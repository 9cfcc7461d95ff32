"""The directives `api-scopes` and `api-problems`: the tables of the HTTP API, as its modules define them."""

import inspect

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from weir.api.http import problems
from weir.api.tokens import scopes

from . import tables


class ApiScopes(SphinxDirective):
    """Lists the scopes of tokens, in alphabetical order."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(inspect.getfile(scopes))
        rows = [[tables.code(scope), tables.prose(allows)] for scope, allows in sorted(scopes.SCOPES.items())]
        return [tables.table(["Scope", "With it a program can"], rows)]


class ApiProblems(SphinxDirective):
    """Lists the kinds of problems, by their statuses."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(inspect.getfile(problems))
        rows = [
            [tables.code(kind.name), tables.prose(str(kind.status)), tables.prose(f"{kind.title}. {kind.meaning}")]
            for kind in problems.KINDS.values()
        ]
        return [tables.table(["Name", "Status", "Meaning"], rows)]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("api-scopes", ApiScopes)
    app.add_directive("api-problems", ApiProblems)
    return {"parallel_read_safe": True}
