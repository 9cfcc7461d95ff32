"""`manage.py emails preview`: what an e-mail looks like, without sending it."""

import argparse
import json
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import one_of, utf8
from weir.workers.mail import addresses, kinds, rendering
from weir.workers.mail.management import email_text
from weir.workers.mail.management.listing import refuse_unknown
from weir.workers.mail.models import Email
from weir.workers.mail.reports import previews
from weir.workers.mail.reports.previews import EmailPreview

FORMATS = ("text", "html", "eml")
TO = "somebody@example.com"


class PreviewAction(Subcommand):
    """Shows one e-mail as it is transmitted, or would be."""

    name = "preview"
    help = "show what an e-mail says: a stored one, or one of a kind with these arguments; nothing is stored or sent"
    examples = (
        "preview 17",
        "preview order.shipped order_id=17 --language de",
        "preview order.shipped order_id=17 --format html",
        "preview 17 --format eml",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", type=utf8, metavar="ID|KIND", help="the id of an e-mail, or a kind")
        parser.add_argument(
            "context", type=argument, nargs="*", metavar="KEY=VALUE", help="the arguments of the kind; 17 is a number"
        )
        parser.add_argument("--to", type=utf8, metavar="ADDRESS", help=f"of the kind's recipient (default {TO})")
        parser.add_argument("--language", type=utf8, metavar="L", help=f"such as de (default {settings.LANGUAGE_CODE})")
        parser.add_argument(
            "--format", type=one_of(FORMATS, "format"), default=FORMATS[0], metavar="FORMAT",
            help="text (headers, text and files), html, or eml: each byte that is transmitted (default text)",
        )  # fmt: skip

    def run(self, *, what: str, context: list[tuple[str, object]], **options: Any) -> Result | bytes:
        if what.isdecimal():
            if context or options["to"] or options["language"]:
                raise ValueError("An e-mail that is stored has its arguments: give the id alone.")
            preview = previews.of(_stored(int(what)))
        else:
            refuse_unknown(what)
            if what in kinds.names() and (misfit := kinds.misfit(what, dict(context))):
                raise ValueError(f"{misfit} Give KEY=VALUE for each.")
            language = (
                rendering.project_language(options["language"]) if options["language"] else settings.LANGUAGE_CODE
            )
            preview = previews.rendered_now(what, dict(context), language, addresses.canonical(options["to"] or TO))
        return _answer(preview, "json" if options["json"] else options["format"])


def _answer(preview: EmailPreview, form: str) -> Result | bytes:
    if form == "eml":
        return preview.content
    if form == "html":
        if not preview.html:
            raise ValueError("This e-mail has no HTML.")
        return preview.html.encode()
    return Result(text=lambda: email_text.preview_text(preview), data=email_text.preview_data(preview))


def _stored(email_id: int) -> Email:
    if (email := Email.objects.filter(pk=email_id).first()) is None:
        raise ValueError(f"There is no e-mail {email_id}.")
    return email


def argument(text: str) -> tuple[str, object]:
    """Return name and value of KEY=VALUE, for argparse. A value that is not valid JSON is taken as text."""
    name, sign, value = utf8(text).partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"write KEY=VALUE, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
