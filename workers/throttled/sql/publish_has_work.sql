-- Return whether the publisher has anything to do, which is if any task is postponed. Reads only.
SELECT EXISTS (SELECT FROM weir_throttled_postponedtask) AS has_work
