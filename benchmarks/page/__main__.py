"""`python -m benchmarks.page`: write the tables of docs/measured.md anew, of the figures in `.weir/bench`."""

from benchmarks.page import writing
from benchmarks.provenance import PAGE
from project.checkout import CHECKOUT

if __name__ == "__main__":
    writing.write(PAGE, CHECKOUT / ".weir" / "bench")
