"""Read the delivery reports that Sisimai's authors publish, and compare what Weir makes of them with what these expect.

    python -m tests.collections                    clones both repositories from GitHub into .weir/collections
    python -m tests.collections FOLDER FOLDER      reads checkouts of set-of-emails and of rb-sisimai

Nothing of them is kept in this repository. flufl.bounce gives a second opinion on warnings, where it is installed.
The exit status is 1 where a warning is taken for a failure, what is no report for one, or one takes half a second.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import run

from tests.collections.expectations import Expected, of_sisimai, only_warns
from weir.workers.mail.bounces.reports import BounceReport, ReportAction, parse
from weir.workers.mail.bounces.statuses import is_of_a_dead_address

KEPT = Path(".weir/collections")
GITHUB = "https://github.com/sisimai"
LONGEST_S = 0.5
AUTO_REPLIES = "rfc3834"
KINDS = ("recognised", "files", "names it", "suppressed", "agreed", "missed", "delayed")


@dataclass(slots=True)
class Figures:
    """What was seen."""

    by_sender: dict[str, Counter[str]] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)  # suppressed, and Sisimai's tests do not have the file
    other_reasons: list[str] = field(default_factory=list)  # suppressed, and Sisimai says another reason
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def add(self, path: Path, expected: Sequence[Expected]) -> None:
        """Read a file, and compare."""
        content = path.read_bytes()
        begin = time.perf_counter()
        found = parse(content)
        took_s = time.perf_counter() - begin
        self.slowest_s = max(self.slowest_s, took_s)
        sender = path.stem.rpartition("-")[0]
        counts = self.by_sender.setdefault(sender, Counter())
        counts.update(files=1, recognised=bool(found), delayed=sum(_is(each, ReportAction.DELAYED) for each in found))
        counts["names it"] += any(each.message_id for each in found)
        failed = [each for each in found if _is(each, ReportAction.FAILED)]
        if took_s > LONGEST_S or (found and AUTO_REPLIES in {sender, *expected}) or (failed and only_warns(content)):
            self.wrong.append(f"{path.name}: {took_s:.3f} s, {[each.action.value for each in found]}")
        self._compare(path.name, counts, failed, expected)

    def _compare(
        self, name: str, counts: Counter[str], failed: Sequence[BounceReport], expected: Sequence[Expected]
    ) -> None:
        for number, report in enumerate(failed):
            of_it = [expected[number]] if len(expected) == len(failed) else expected
            is_dead = is_of_a_dead_address(report.status, report.diagnostic, is_of_content=report.is_of_content)
            agrees = any(each.is_dead for each in of_it)
            counts.update(suppressed=is_dead, agreed=is_dead and agrees, missed=agrees and not is_dead)
            said = f"{name}: {'/'.join(each.reason for each in of_it)}: {report.status} {report.diagnostic[:120]}"
            if is_dead and not agrees:
                (self.other_reasons if expected else self.unexpected).append(said)
            elif agrees and not is_dead:
                self.missed.append(said)


def main(arguments: Sequence[str]) -> int:
    """Read all, and print the figures; returns 1 if something is wrong."""
    emails, sisimai = map(Path, arguments) if arguments else (_cloned("set-of-emails"), _cloned("rb-sisimai"))
    expected = of_sisimai(sisimai)
    figures = Figures()
    for folder in ("bsd", "dos", "mac", "not"):
        for path in sorted((emails / "maildir" / folder).glob("*.eml")):
            if folder in {"bsd", "not"}:
                figures.add(path, expected.get(path.stem, []))
            elif (alike := emails / "maildir" / "bsd" / path.name).exists() and _read(path) != _read(alike):
                print(f"{folder}/{path.name} is read otherwise than bsd/{path.name}.")
    _show(figures)
    return 1 if figures.wrong else 0


def _show(figures: Figures) -> None:
    print(f"{'sender':24}{''.join(f'{kind:>12}' for kind in KINDS)}")
    total = sum(figures.by_sender.values(), Counter())
    for sender, counts in [*figures.by_sender.items(), ("all", total)]:
        print(f"{sender:24}{''.join(f'{counts[kind]:12,}' for kind in KINDS)}")
    for title, lines in (
        ("suppressed, where Sisimai says another reason", figures.other_reasons),
        ("suppressed, where Sisimai's tests say nothing", figures.unexpected),
        ("not suppressed, where Sisimai says that the address does not exist", figures.missed),
        ("wrong", figures.wrong),
    ):
        print(f"\n{len(lines)} {title}:", *lines, sep="\n  ")
    print(f"\nThe slowest took {figures.slowest_s:.3f} s.")


def _read(path: Path) -> list[tuple[str, str, str]]:
    return [(each.recipient, each.action.value, each.status) for each in parse(path.read_bytes())]


def _is(report: BounceReport, action: ReportAction) -> bool:
    return report.action is action


def _cloned(name: str) -> Path:
    """Return a checkout of one of Sisimai's repositories."""
    folder = KEPT / name
    if not folder.exists():
        run(["git", "clone", "--depth", "1", f"{GITHUB}/{name}", str(folder)], check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
