"""The page docs/measured.md: its tables are made of the figures that benchmarks have written, and of nothing else."""
