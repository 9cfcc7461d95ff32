-- Let this transaction's statements take as long as they take: an epoch that was refused for its size would be for ever.
SELECT set_config('statement_timeout', '0', true)
