"""The ledger's statements for a room that writes more than the effect's row, in one transaction with it."""

from weir.postgres.statements import Statement

BEGIN = Statement("begin", commits=False, prepare=True)
RECORD = Statement("record", commits=False, prepare=True)
