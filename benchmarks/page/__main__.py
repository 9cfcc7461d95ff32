"""`python -m benchmarks.page`: keep the figures in `.weir/bench`, and write the tables of docs/measured.md anew."""

from benchmarks.page import writing

if __name__ == "__main__":
    writing.renew()
