"""The ledger's statements for a room that writes more than the effect's row, in one transaction with it."""

from weir.postgres.statements import Statement

BEGIN_WITHIN = Statement("begin", commits=False, prepare=True)
RECORD_WITHIN = Statement("record", commits=False, prepare=True)
