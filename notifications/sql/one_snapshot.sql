-- Have the statements of this transaction see the tables as they are at the first of them.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
