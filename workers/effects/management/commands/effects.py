from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils.text import Truncator
from rich.text import Text

from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import from_zero, one_of, row_id, utf8
from weir.workers.effects import actions, kinds, listing, reports
from weir.workers.effects.kinds import UnknownEffectKind
from weir.workers.effects.listing import EffectFilters
from weir.workers.effects.management import effect_text
from weir.workers.effects.models import Act, Effect
from weir.workers.effects.names import EffectState
from weir.workers.events.ended import REFUSALS, Ended
from weir.workers.events.models import Subject
from weir.workers.ledger import commands

LISTED = 100
PRINTED_BY = "`effects kinds --json`"
SHOWN = 200  # characters of a reply in the table; --json has all of them
SAID: Mapping[Act, str] = {
    Act.DONE: "it happened",
    Act.AGAIN: "it is done again",
    Act.ASK: "its probe is asked again",
    Act.GIVE_UP: "it stays undone",
    Act.CANCEL: "it is cancelled",
}


class List(Subcommand):
    """The effects of one state."""

    name = "list"
    help = "count the effects by state, and list those that are unknown, or of another state"
    examples = ("list", "list --state failed --kind stripe.refund --limit 0 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--state",
            type=one_of(EffectState, "state"),
            default=EffectState.UNKNOWN.value,
            metavar="STATE",
            help=f"which to list: {', '.join(EffectState)} (default {EffectState.UNKNOWN.value}); "
            "of `done`, the newest first",
        )
        parser.add_argument("--kind", type=utf8, default="", metavar="KIND", help="of this kind only")
        parser.add_argument("--user", type=utf8, default="", metavar="USER", help="of this user only")
        parser.add_argument(
            "--limit", type=from_zero, default=LISTED, metavar="N", help=f"the first N; 0 = all (default {LISTED})"
        )

    def run(self, *, state: str, kind: str, user: str, limit: int, **_options: Any) -> Result:
        found = list(listing.listed(EffectFilters(state=state, kind=kind, user=user))[: limit + 1 if limit else None])
        shown = found[:limit] if limit else found
        numbers = reports.by_state()._asdict()
        return Result(
            text=lambda: _list_text(shown, numbers, has_more=len(shown) < len(found)),
            data={
                "counts": numbers,
                "counted_to": reports.MOST,
                "state": state,
                "has_more": len(shown) < len(found),
                "effects": [effect_text.as_data(effect) for effect in shown],
            },
        )


class Show(Subcommand):
    """All about one effect."""

    name = "show"
    help = "show everything about one effect: why it waits, and what was said about it"
    examples = ("show 17", "show 17 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")

    def run(self, **options: Any) -> Result:
        effect = Effect.objects.filter(pk=options["id"]).first()
        if effect is None:
            raise ValueError(f"There is no effect {options['id']}.")
        data = effect_text.details(effect)
        return Result(text=lambda: effect_text.as_text(data), data=data)


class Resolve(Subcommand):
    """Records what a person says about effects."""

    name = "resolve"
    help = "say of effects that they happened, have them done again or asked about, or give them up"
    examples = (
        'resolve 17 --done --why "The provider lists the refund." --who Ada',
        'resolve 17 18 --again --why "The provider has no such refund."',
        'resolve 17 --ask --why "The provider is back."',
        'resolve 17 --give-up --why "The customer was called."',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        commands.add_ids(parser)
        acts = parser.add_mutually_exclusive_group(required=True)
        for option, act, help_text in (
            ("--done", Act.DONE, "it happened: nothing more is done"),
            ("--again", Act.AGAIN, "do it again; an unknown one, or one left undone, may happen twice"),
            ("--ask", Act.ASK, "ask the probe of its kind again"),
            ("--give-up", Act.GIVE_UP, "it is not done again, and whether it happened is not known"),
        ):
            acts.add_argument(option, dest="act", action="store_const", const=act, help=help_text)
        _add_said(parser)

    def run(self, *, ids: list[int], act: Act, who: str | None, why: str, seen: str | None, **_options: Any) -> Result:
        return _each(ids, act, who, why, seen=seen)


class Cancel(Subcommand):
    """Cancels waiting effects."""

    name = "cancel"
    help = "have effects not done that wait, and that no worker has begun"
    examples = ('cancel 17 18 --why "The order was cancelled."',)

    def add_arguments(self, parser: CommandParser) -> None:
        commands.add_ids(parser)
        _add_said(parser)

    def run(self, *, ids: list[int], who: str | None, why: str, seen: str | None, **_options: Any) -> Result:
        return _each(ids, Act.CANCEL, who, why, seen=seen)


class Kinds(Subcommand):
    """Lists all kinds."""

    name = "kinds"
    help = "list the kinds of effects: how an unknown outcome of each is settled, and which are paused"
    examples = ("kinds", "kinds --json")

    def run(self, **_options: Any) -> Result:
        found = effect_text.kinds_data()
        return Result(text=lambda: effect_text.kinds_text(found), data={"kinds": found})


class Pause(commands.PauseKind):
    """Pauses a kind."""

    help = "begin no effect of a kind until an operator resumes it"
    examples = ('pause stripe.refund --why "The amounts are wrong." --who Ada',)
    kinds = actions.KINDS
    printed_by = PRINTED_BY


class Resume(commands.ResumeKind):
    """Resumes a kind."""

    help = "resume the effects of a kind"
    examples = ('resume stripe.refund --why "The amounts are right now."',)
    kinds = actions.KINDS
    printed_by = PRINTED_BY

    def refuse_unknown(self, kind: str) -> None:
        kinds.get(kind)


class Forget(Subcommand):
    """Removes what effects say about a user."""

    name = "forget"
    help = "remove what effects say about a user; that they happened stays"
    description = (
        "Remove context, result, replies and the user's key from the effects that were queued with this user, and have "
        "ended. What has not ended goes on, and is forgotten within ten minutes after its end. It cannot be undone."
    )
    examples = ('forget 4711 --why "She asked for it" --who Ada',)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", type=utf8, metavar="USER", help="the key that `once` was called with")
        said.add_arguments(parser, wants_reason=True)

    def run(self, *, user: str, who: str | None, why: str, **_options: Any) -> Result:
        done = actions.forget(acting.of_shell(who), user, why=why)
        text = f"Effects forgotten: {done.forgotten:,}."
        if done.left:
            text += f" Not ended, and forgotten after their end: {done.left:,} (`effects list --user`)."
        return Result(text=lambda: text, data=done._asdict())


class Command(ActionCommand):
    help = (
        "Count, list and show effects, say what became of those that are unknown, cancel them, pause kinds, and forget "
        "users."
    )
    actions = (List(), Ended(Subject.EFFECT), Show(), Resolve(), Cancel(), Kinds(), Pause(), Resume(), Forget())
    refusals: ClassVar = (ValueError, UnknownEffectKind, acting.ActRefused, *REFUSALS)


def _add_said(parser: CommandParser) -> None:
    commands.add_said(parser, "`effects show`")


def _each(ids: list[int], act: Act, who: str | None, why: str, *, seen: str | None) -> Result:
    actor = acting.of_shell(who)

    def resolve(effect_id: int) -> str:
        actions.resolve(actor, effect_id, act, why=why, seen=seen)
        return SAID[act]

    return commands.resolve_each("effect", ids, act.value, seen, resolve)


def _list_text(shown: list[Effect], numbers: Mapping[str, int], *, has_more: bool) -> str:
    text = "\n".join(f"{number:>11,} {state}" for state, number in numbers.items())
    if shown:
        table = terminal.table("id", "kind", "key", "state", "last reply", "worker", "age", numbers=("id",))
        for column in table.columns:
            column.no_wrap = column.header in {"id", "state", "age"}
        for effect in shown:
            reply, kind, key = (
                Text(terminal.printable(Truncator(each).chars(SHOWN)))
                for each in (effect.last_reply, effect.kind, effect.key)
            )
            table.add_row(
                str(effect.pk), kind, key, effect.state, reply, Text(effect.claimed_by), effect_text.age(effect)
            )
        text += f"\n\n{terminal.rendered(table)}"
    return f"{text}More are not shown: --limit 0 shows all." if has_more else text
