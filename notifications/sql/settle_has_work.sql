-- Whether there is anything to settle: a user is to be forgotten, or a read mark's rows do not say so yet.
SELECT EXISTS (SELECT FROM weir_notifications_forgottenuser)
    OR EXISTS (SELECT FROM weir_notifications_readmark) AS has_work
