"""Batches: fetches under one name, with exact numbers at any time, and a task that is called when none is left.

    request_fetches(urls, batch="import-7", on_batch_done="shop.tasks.imported")

1. Whoever asks for fetches joins the batch (joining.py), in the caller's transaction.
2. Triggers (migrations/0012_fetches_of_batches.py, 0028_counted_by_row.py) write by how much each statement changes
   the numbers of a batch (BatchChange), in its transaction, whoever executes it: also a worker of the version before,
   or SQL by hand. No statement waits for another one because both change the same batch.
3. Sweep adds these changes to the batch's row, ends batches of which nothing is left, and calls their tasks
   (counting.py).
4. A reader adds the changes that are not folded yet to the row, in one snapshot (counts.py).
"""
