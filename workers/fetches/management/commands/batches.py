from dataclasses import asdict
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from weir.workers.audit import acting, said
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import at_least_one, one_of, utf8
from weir.workers.fetches.actions import batches as actions
from weir.workers.fetches.batches.counts import UnknownBatch, id_of
from weir.workers.fetches.management import batch_text
from weir.workers.fetches.reports.batches import STATES, as_data, batch_list, outlook

LISTED = 20


class List(Subcommand):
    """List batches."""

    name = "list"
    help = "list batches, the newest first"
    examples = ("list", "list --state running --json", "list --name import-7")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--state",
            type=one_of(STATES, "state"),
            metavar="STATE",
            help=f"only those that are {', '.join(STATES)}; an open one waits for more",
        )
        parser.add_argument("--name", type=utf8, default="", metavar="NAME", help="only the one of this name")
        parser.add_argument(
            "--limit", type=at_least_one, default=LISTED, metavar="N", help=f"the first N of them (default {LISTED})"
        )
        parser.add_argument("--after", metavar="CURSOR", help="go on where a list ended, which has told its cursor")

    def run(self, *, limit: int, after: str | None, **options: Any) -> Result:
        page = batch_list(state=options["state"] or "", name=options["name"], cursor=after, most=limit)
        hint = f"There are more: --after {page.next} goes on." if page.next else ""
        return Result(
            text=lambda: (batch_text.as_table(page.batches) if page.batches else "No batches.") + hint,
            data={"batches": [as_data(batch) for batch in page.batches], "next": page.next},
        )


class Show(Subcommand):
    """Show one batch."""

    name = "show"
    help = "show the numbers of one batch, and when it is expected to end"
    examples = ("show import-7", "show import-7 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        _add_name(parser)

    def run(self, **options: Any) -> Result:
        found = outlook(id_of(options["name"]))
        return Result(text=lambda: batch_text.as_text(found), data=batch_text.details(found))


class Cancel(Subcommand):
    """Cancel a batch."""

    name = "cancel"
    help = "take back the fetches of a batch that have not started; those in flight end"
    examples = ("cancel import-7", "cancel import-7 --why 'the wrong list' --json")

    def add_arguments(self, parser: CommandParser) -> None:
        _add_name(parser)
        said.add_arguments(parser)

    def run(self, **options: Any) -> Result:
        done = actions.cancel(acting.of_shell(options["who"]), id_of(options["name"]), why=options.get("why", ""))
        left = f" {done.unfinished:,} in flight, or tried again: cancel again to take those back."
        return Result(
            text=lambda: (
                f"{done.cancelled:,} fetch{pluralize(done.cancelled, 'es')} cancelled."
                + (left if done.unfinished else "")
            ),
            data=done._asdict(),
        )


class Retry(Subcommand):
    """Queue the failed fetches of a batch again."""

    name = "retry"
    help = "queue the failed fetches of a batch again, as if they were new"
    examples = ("retry import-7", "retry import-7 --limit 100")

    def add_arguments(self, parser: CommandParser) -> None:
        _add_name(parser)
        parser.add_argument(
            "--limit", type=at_least_one, metavar="N", help="the N oldest of them; default: all of them"
        )
        said.add_arguments(parser)

    def run(self, *, limit: int | None, **options: Any) -> Result:
        actor = acting.of_shell(options["who"])
        retried = actions.retry(actor, id_of(options["name"]), why=options.get("why", ""), limit=limit)
        return Result(text=lambda: "\n".join(retried.sentences()), data=asdict(retried))


class Close(Subcommand):
    """Let a batch end for which more was to come."""

    name = "close"
    help = "say that no more is to come: the batch ends when nothing of it is left"
    examples = ("close import-7",)

    def add_arguments(self, parser: CommandParser) -> None:
        _add_name(parser)
        said.add_arguments(parser)

    def run(self, **options: Any) -> Result:
        actor = acting.of_shell(options["who"])
        is_closed = actions.close(actor, id_of(options["name"]), why=options.get("why", ""))
        text = "It is closed." if is_closed else "It was not open: nothing was changed."
        return Result(text=lambda: text, data={"closed": is_closed})


class Command(ActionCommand):
    help = "List and show batches of fetches, cancel one, retry what failed of it, or close it."
    actions = (List(), Show(), Cancel(), Retry(), Close())
    refusals: ClassVar = (ValueError, UnknownBatch, acting.ActRefused)


def _add_name(parser: CommandParser) -> None:
    parser.add_argument("name", type=utf8, metavar="NAME", help="of the batch")
