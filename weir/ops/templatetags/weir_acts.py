"""Links to acts. A page offers those that its visitor may do, and says below which it does not offer, and why.

The live part of a page is given again to all visitors with the same powers (`actions.powers`), so it names no visitor.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode

from django import template
from django.template import RequestContext
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from weir.ops import actions
from weir.ops.deeds import Deed
from weir.ops.deeds.effects import EFFECT_KIND
from weir.ops.templatetags.weir_ops import foreign
from weir.ops.views.links import Link
from weir.workers.audit import acting
from weir.workers.audit.models import Door, Entry

register = template.Library()
KEPT_BACK: Final = "kept_back"  # in the context: the titles of acts that are not offered, by the reason
_NUMBERED: Final[Mapping[str, str]] = {
    "fetch": "weir_ops:fetch",
    "batch": "weir_ops:batch",
    "watch": "weir_ops:watch",
    "endpoint": "weir_ops:endpoint",
    "e-mail": "weir_ops:email",
    "effect": "weir_ops:effect",
}
_NUMBER: Final = re.compile(r"(fetch|batch|watch|endpoint|e-mail|effect) (\d{1,18})", re.ASCII)


@register.simple_tag(takes_context=True)
def act(context: RequestContext, of: str, what: str, target: object = None, **query: str) -> str:
    """Return the link to the form of an act, such as `{% act 'site' 'pause' name seen=version %}`; "" if refused.

    `label` is the link's text, if it is not the title of the act; `list` is the query of the list that is meant.
    """
    deed = actions.OF[of][what]
    if not _is_offered(context, deed):
        return ""
    label, listed = query.pop("label", deed.title), query.pop("list", "")
    url = reverse(f"weir_ops:{of}-act", args=[what] if target is None else [target, what])
    asked = listed or urlencode(query)
    return format_html('<a href="{}{}">{}</a>', url, f"?{asked}" if asked else "", label)


@register.simple_tag(takes_context=True)
def lead(context: RequestContext, link: Link) -> str:
    """Return the link; "" if it leads to the form of an act that the visitor may not do."""
    if link.deed is not None and not _is_offered(context, link.deed):
        return ""
    return format_html('<a href="{}">{}</a>', link.url, foreign(link.words))


@register.filter
def target_url(entry: Entry) -> str:
    """Return the path of what an entry of the audit trail is about; "" if it has no page."""
    if named := _NUMBER.fullmatch(entry.target):
        return reverse(_NUMBERED[named[1]], args=[named[2]])
    if entry.action in {actions.SITE[what].action.name for what in ("set", "pause", "resume")}:
        with suppress(NoReverseMatch):  # another program has written what is no site's name
            return reverse("weir_ops:site", args=[entry.target])
    for deeds, page in ((actions.KIND, "weir_ops:emails"), (EFFECT_KIND, "weir_ops:effects")):
        if entry.action in {deed.action.name for deed in deeds.values()}:
            return f"{reverse(page)}?{urlencode({'state': '', 'kind': entry.target})}"
    return ""


def _is_offered(context: RequestContext, deed: Deed) -> bool:
    try:
        deed.allow(acting.of_request(context.request, Door.PAGE))
    except acting.NotPermitted:
        why = f"it takes the permission {' and '.join(f'`{each.permission}`' for each in deed.actions)}"
    except acting.ReadOnly:
        why = "WEIR_OPS_READ_ONLY is set"
    else:
        return True
    kept_back: dict[str, dict[str, None]] = context[KEPT_BACK]
    kept_back.setdefault(why, {})[deed.title] = None
    return False
