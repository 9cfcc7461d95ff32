-- Forget files that were deleted.
DELETE FROM weir_fetches_bodyfile WHERE name = ANY(%(names)s::text[]) RETURNING name
