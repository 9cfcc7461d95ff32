"""The lists of the pages as files: all rows that the filters select, as CSV or as JSON lines.

A file is written while it is read, page by page, each within a bound of time, so that its size does not matter to the
web process. After MOST_ROWS rows or LONGEST_S seconds, or if a page cannot be read, the last line says that the file is
not whole, and why: as CSV in the first column, as JSON lines in an object with the one name `note`.
"""

import csv
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Final

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.core.handlers.asgi import ASGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from weir.ops import pages
from weir.ops.filters import Chosen
from weir.ops.snapshots import look
from weir.ops.views import audit, batches, effects, emails, fetches, sites, watches
from weir.postgres import planner
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.sites import UnknownSite
from weir.workers.audit import listing as entries
from weir.workers.effects import listing as effect_listing
from weir.workers.effects.management import effect_text
from weir.workers.fetches.management import fetch_text, site_text
from weir.workers.fetches.reports import batches as batch_report
from weir.workers.fetches.reports import fetch_filters, fetch_list, site_list
from weir.workers.mail.management import email_text
from weir.workers.mail.reports import listing
from weir.workers.watches import listing as watch_listing

MOST_ROWS: Final = 100_000
LONGEST_S: Final = 120.0
NOT_WHOLE: Final = "This file is not whole"
INSTEAD: Final = "Filter the list, or use the command."
TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}
# What spreadsheets take for a formula, some of them after blanks. Texts come from strangers, so they get a quotation
# mark, as text does there.
FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four in full width
BLANKS: Final = ("\t", "\r", "\n")
INVISIBLE: Final = str.maketrans("", "", "\ufeff\u200b")
# Line ends of Unicode, by which some programs divide JSON lines.
LINE_ENDS: Final = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})
BYTE_ORDER: Final = "\ufeff"  # without it, Excel takes UTF-8 for another encoding

Row = Mapping[str, object]
Part = tuple[list[Row], str]  # the rows of a page, and the cursor of the next one; "" if it is the last
Read = Callable[[str], Part]


def _fetches(chosen: Chosen) -> Read:
    filters = fetch_filters.read({name: [text] for name, text in chosen.values.items()}, timezone.now())

    def read(cursor: str) -> Part:
        page = fetch_list.fetch_list(filters, cursor or None)
        return [fetch_text.as_data(fetch) for fetch in page.fetches], page.next or ""

    return read


def _sites(chosen: Chosen) -> Read:
    filters = sites.wanted(chosen)
    counted: list[site_list.Backlogs] = []

    def read(cursor: str) -> Part:
        counted[:] = counted or [site_list.backlogs()]
        page = site_list.site_list(filters, cursor or None, counted=counted[0])
        return [site_text.status_data(site) for site in page.sites], page.next or ""

    return read


def _batches(chosen: Chosen) -> Read:
    def read(cursor: str) -> Part:
        page = batches.wanted(chosen, cursor)
        return [batch_report.as_data(batch) for batch in page.batches], page.next or ""

    return read


def _watches(chosen: Chosen) -> Read:
    filters = watches.wanted(chosen)

    def read(cursor: str) -> Part:
        page = watch_listing.watch_list(filters, cursor or None)
        return [watch_listing.as_data(watch) for watch in page.watches], page.next or ""

    return read


def _emails(chosen: Chosen) -> Read:
    filters = emails.wanted(chosen)

    def read(cursor: str) -> Part:
        planner.by_indexes()
        page = listing.page(filters, cursor)
        return [email_text.as_data(email) for email in page.emails], page.next

    return read


def _effects(chosen: Chosen) -> Read:
    filters = effects.wanted(chosen)

    def read(cursor: str) -> Part:
        planner.by_indexes()
        page = effect_listing.page(filters, cursor)
        rows = [effect_text.as_data(effect) for effect in page.rows]
        return [{name: value for name, value in row.items() if name != "result"} for row in rows], page.next

    return read


def _entries(chosen: Chosen) -> Read:
    filters = audit.wanted(chosen)

    def read(cursor: str) -> Part:
        page = entries.page(filters, cursor)
        return [entries.as_data(entry) for entry in page.entries], page.next

    return read


# The columns are those of `list --json`: as_data, or status_data, of each list; but results of effects take a right of
# their own (views/effects.py).
LISTS: Final = {
    "fetches": (fetches.FILTERS, _fetches),
    "batches": (batches.FILTERS, _batches),
    "watches": (watches.FILTERS, _watches),
    "sites": (sites.FILTERS, _sites),
    "emails": (emails.FILTERS, _emails),
    "effects": (effects.FILTERS, _effects),
    "audit": (audit.FILTERS, _entries),
}


@login_not_required  # as of pages: it asks by itself
def export(request: HttpRequest, of: str, form: str) -> HttpResponseBase:
    """Return all rows of a list that the filters in the query select, as a file to keep."""
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    return pages.forbidden(request) or _file(request, of, form)


def _file(request: HttpRequest, of: str, form: str) -> HttpResponseBase:
    filters, reader = LISTS[of]
    try:
        read = reader(filters.read(request.GET))
    except (ValueError, InvalidSiteName, UnknownSite) as error:
        return HttpResponse(str(error), status=400, content_type="text/plain; charset=utf-8")
    written = map(_csv() if form == "csv" else _json_lines, _parts(read))
    name = f"weir-{of}-{timezone.now():%Y%m%dT%H%M%S}Z.{form}"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    content = _each(written) if isinstance(request, ASGIRequest) else written
    return StreamingHttpResponse(content, content_type=TYPES[form], headers=headers)


async def _each(written: Iterator[str]) -> AsyncIterator[str]:
    """Yield what is written, which is made in the thread of the database's connection."""
    while (text := await sync_to_async(lambda: next(written, None))()) is not None:
        yield text


def _parts(read: Read) -> Iterator[list[Row]]:
    """Yield the rows page by page and, if these are not all, a last row that says so."""
    ends_at, number, cursor = time.monotonic() + LONGEST_S, 0, ""
    while True:
        looked = look(partial(read, cursor))
        if looked.value is None:
            yield [{"note": f"{NOT_WHOLE}. {looked.failure}"}]
            return
        rows, cursor = looked.value
        number += len(rows)
        yield rows
        if not cursor:
            return
        if number >= MOST_ROWS:
            yield [{"note": f"This file ends after {number:,} rows, and there may be more. {INSTEAD}"}]
            return
        if time.monotonic() > ends_at:
            yield [{"note": f"{NOT_WHOLE}: it took longer than {LONGEST_S:g} s. {INSTEAD}"}]
            return


def _json_lines(rows: list[Row]) -> str:
    return "".join(f"{_json(row)}\n" for row in rows)


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False).translate(LINE_ENDS)


def _csv() -> Callable[[list[Row]], str]:
    """Return a function that writes rows as CSV (RFC 4180), with the names of the columns before the first one."""
    columns: list[str] = []

    def write(rows: list[Row]) -> str:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        for row in rows:
            if not columns:
                columns.extend(row)
                text.write(BYTE_ORDER)
                writer.writerow(columns)
            writer.writerow([_cell(value) for value in row.values()])
        return text.getvalue()

    return write


def _cell(value: object) -> str:
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    text = value if isinstance(value, str) else _json(value).strip('"')  # a moment, or what has parts
    is_formula = text.startswith(BLANKS) or text.translate(INVISIBLE).lstrip().startswith(FORMULA)
    return f"'{text}" if is_formula else text
