-- Return the newest unread notifications of a user that no read mark covers, before the id `before`. They are found
-- without reading the covered rows (unseen changes). If the mark was removed meanwhile, these are all unread ones.
WITH uncovered AS MATERIALIZED (
    SELECT id FROM weir_notifications_uncovered(%(user)s::user_key)
)
SELECT id FROM uncovered WHERE id < coalesce(%(before)s::bigint, 9223372036854775807) ORDER BY id DESC LIMIT %(limit)s
