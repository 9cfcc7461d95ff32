"""Corrects the times of effects when PostgreSQL's clock was stepped."""

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)
