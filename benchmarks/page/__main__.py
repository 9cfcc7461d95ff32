"""`python -m benchmarks.page`: keep the figures in `.weir/bench`, and write the tables of docs/measured.md anew."""

from benchmarks.page import writing
from benchmarks.provenance import KEPT, PAGE
from project.checkout import CHECKOUT

if __name__ == "__main__":
    writing.keep(CHECKOUT / ".weir" / "bench", KEPT)
    writing.write(PAGE, KEPT)
