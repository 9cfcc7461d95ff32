"""What the commands of all rooms share: `resolve` and `cancel` of single effects, `pause` and `resume` of kinds."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.core.exceptions import ObjectDoesNotExist
from django.core.management.base import CommandParser

from weir.workers.audit import acting, said
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import row_id, utf8
from weir.workers.ledger.pausing import PausedKinds
from weir.workers.ledger.resolving import CannotBeResolved


def add_ids(parser: CommandParser) -> None:
    """Declare the ids of one or more effects."""
    parser.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")


def add_said(parser: CommandParser, printed_by: str) -> None:
    """Declare who decides, why, and by which version, which `printed_by` prints."""
    said.add_seen(parser, printed_by)
    said.add_arguments(parser, wants_reason=True)


def resolve_each(noun: str, ids: Sequence[int], act: str, seen: str | None, resolve: Callable[[int], str]) -> Result:
    """Resolve each by itself; `resolve` returns what is said of it. `noun` is what messages call one of them."""
    if seen and len(set(ids)) > 1:
        raise ValueError(f"--seen is the version of one {noun}: name one.")
    resolved: dict[int, str] = {}  # by id: what is printed
    refused: list[str] = []
    for row in dict.fromkeys(ids):
        try:
            resolved[row] = resolve(row)
        except ObjectDoesNotExist:
            refused.append(f"There is no {noun} {row}.")
        except CannotBeResolved as error:
            refused.append(str(error))
    return Result(
        text=lambda: "\n".join(f"{noun.capitalize()} {row}: {text}." for row, text in resolved.items()),
        data={"act": act, "resolved": list(resolved), "refused": refused},
        refused=refused,
    )


class _OfKind(Subcommand):
    """An act on a kind."""

    kinds: ClassVar[PausedKinds]
    printed_by: ClassVar[str]  # what prints the version of a kind

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", type=self.typed(), metavar="KIND")
        add_said(parser, self.printed_by)

    def typed(self) -> Callable[[str], str]:
        """Return what reads the name of a kind."""
        return utf8


class PauseKind(_OfKind):
    """Pauses a kind."""

    name = "pause"

    def run(self, *, kind: str, seen: str | None, who: str | None, why: str, **_options: Any) -> Result:
        if not self.kinds.pause(acting.of_shell(who), kind, why=why, seen=seen):
            raise ValueError(f"{self.kinds.pause_of(kind)}. It stays so.")
        return Result(text=lambda: f"{kind} is paused: what is queued waits.", data={"paused": kind})


class ResumeKind(_OfKind):
    """Resumes a kind."""

    name = "resume"
    resumed: ClassVar = "{} is resumed."

    def refuse_unknown(self, kind: str) -> None:
        """Raise ValueError if there is no such kind; it was not paused."""

    def run(self, *, kind: str, seen: str | None, who: str | None, why: str, **_options: Any) -> Result:
        if not self.kinds.resume(acting.of_shell(who), kind, why=why, seen=seen):
            self.refuse_unknown(kind)
            raise ValueError(f"{kind} is not paused.")
        return Result(text=lambda: self.resumed.format(kind), data={"resumed": kind})
