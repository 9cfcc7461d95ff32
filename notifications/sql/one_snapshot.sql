-- Make all statements of this transaction see the tables as they are at the first statement.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
