-- Whether the publisher has anything to do: a task is postponed.
SELECT EXISTS (SELECT FROM weir_throttled_postponedtask) AS has_work
