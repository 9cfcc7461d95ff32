"""How Sphinx builds the documentation: see `make docs`. No server is asked, and nothing is fetched."""

import os
import sys
from pathlib import Path

import django

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]  # for the extensions in docs/ext; for the code itself
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

project = "Weir"
copyright = "the authors of Weir"  # noqa: A001  Sphinx reads this name
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "ext.api_tables",
    "ext.command_help",
    "ext.make_targets",
    "ext.model_tables",
    "ext.public_names",
    "ext.root_files",
    "ext.source_pages",
]
exclude_patterns = ["ext"]

html_theme = "furo"
html_title = "Weir"
html_show_sourcelink = False
html_copy_source = False
smartquotes = False  # "--json" stays what is typed
pygments_style = "tango"
pygments_dark_style = "monokai"

myst_heading_anchors = 4  # the anchors that code hosts give to headings, too

# Docstrings are prose with `names` in single backticks, as on a code host.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 100
# The types of a signature link to where this site describes them; most are Python's, Django's and Celery's.
nitpick_ignore_regex = [("py:class", ".*")]
