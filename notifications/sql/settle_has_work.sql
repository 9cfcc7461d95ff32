-- Return whether there is anything to settle: a user is to be forgotten, or there is a read mark, whose rows may lack
-- `read_at`.
SELECT EXISTS (SELECT FROM weir_notifications_forgottenuser)
    OR EXISTS (SELECT FROM weir_notifications_readmark) AS has_work
