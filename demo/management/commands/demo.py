import json
import sys
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console, RenderableType

from demo import home as demo_home
from demo import report
from demo.fakes.judge import gap_ratios
from demo.figures import Figures
from demo.plan import Plan
from demo.run import Run
from demo.screen import Lines, LiveScreen, frame
from project.processes import interrupts, procfile
from weir.workers.cli import terminal
from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.arguments import at_least_one, seconds

CAPTURE_WIDTH = 100
BROKEN = 1  # exit status: a promise was broken


class Command(ExactCommand):
    help = (
        "Show Weir at work: dozens of fake sites on this machine, each with its own rate, thousands of URLs, "
        "real workers; judged by the sites' own log. Meanwhile users are notified and read, and each unread number "
        "that they ask for is compared with COUNT(*). And orders are shipped: their e-mails go to a mail server that "
        "drops, delays and refuses some, while workers that send them are killed; judged by its own list. "
        "Exit status: 0; 1 when a request came early, an unread number drifted, or an e-mail was received twice or "
        "was sent and never received; 130 after Ctrl-C."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--duration", type=seconds, default=60.0, help="seconds from the first request (default 60)"
        )
        parser.add_argument("--sites", type=at_least_one, default=24, help="how many sites (default 24)")
        parser.add_argument("--fetchers", type=at_least_one, default=2, help="how many fetcher processes (default 2)")
        parser.add_argument("--headless", action="store_true", help="no live view: a line every 2 seconds on stderr")
        parser.add_argument("--json", metavar="OUT", help="write the figures to a file; - is stdout")
        parser.add_argument("--capture", metavar="SVG", help="write the last picture and the verdict to a file")
        parser.add_argument(
            "--home", type=Path, default=demo_home.DEFAULT, help="its own folder, which is wiped (default .weir/demo)"
        )

    def handle(self, *_args: object, **options: Any) -> None:
        check_folders(options["json"], options["capture"])
        plan = Plan(
            home=options["home"].expanduser().resolve(),
            duration_s=options["duration"],
            sites=options["sites"],
            fetchers=options["fetchers"],
        )
        demo_home.enter(plan.home)
        console = terminal.console(stderr=options["headless"])
        live = console.is_terminal and not options["headless"]
        screen = LiveScreen(console, plan) if live else Lines(console)
        run = Run(plan, screen)
        status = perform(run, screen)
        observer = run.observer
        figures = observer.figures() if observer else None
        if observer is None or figures is None:
            console.print("Stopped before there was anything to judge.")
            sys.exit(status)
        verdict = report.verdict(figures, len(observer.arrivals()))
        console.print(verdict, soft_wrap=not live)
        ratios = gap_ratios(observer.arrivals(), observer.intervals)
        if live:
            console.print(report.histogram(ratios, console.width))
        if options["capture"] and screen.view:
            picture = frame(screen.view, plan, CAPTURE_WIDTH)
            capture(Path(options["capture"]), picture, verdict, report.histogram(ratios, CAPTURE_WIDTH))
        if options["json"] and not status:
            write(options["json"], figures)
        sys.exit(status or (BROKEN if figures.broken else 0))


def check_folders(*files: str | None) -> None:
    """Raise CommandError for a file that could not be written at the end."""
    for file in filter(None, files):
        if not Path(file).parent.is_dir():
            raise CommandError(f"There is no folder {Path(file).parent} to write {Path(file).name} in.")


def perform(run: Run, screen: LiveScreen | Lines) -> int:
    """Perform the run, and return the exit status so far. Everything has stopped by then."""
    try:
        with interrupts.raised_once(), screen:
            run.perform()
    except interrupts.Interrupted as interrupted:
        return interrupted.exit_code
    except procfile.ProcessesEnded:
        raise CommandError(f"One of the processes ended: its last words are in {run.plan.log}.") from None
    except (demo_home.NotADemoFolder, procfile.NotReady, RuntimeError) as error:
        # RuntimeError is that of sites, mail server, users and warehouse.
        raise CommandError(str(error)) from error
    return 0


def capture(file: Path, *parts: RenderableType) -> None:
    """Write these parts to an SVG file, as a terminal shows them."""
    recorder = Console(record=True, width=CAPTURE_WIDTH, file=StringIO(), force_terminal=True, highlight=False)
    for part in parts:
        recorder.print(part)
        recorder.print()
    recorder.save_svg(str(file), title="make demo")


def write(file: str, figures: Figures) -> None:
    """Write the figures as JSON."""
    text = json.dumps(asdict(figures), indent=2) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        Path(file).write_text(text)
