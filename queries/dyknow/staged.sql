-- A table for the lines of journals on their way into the responses, of which only some count.
-- In:  nothing; reads the columns of the table that is being made. Out: nothing.
CREATE OR REPLACE TABLE memory.staged AS
SELECT r.*, 0 AS place, false AS expected, CAST(0 AS BIGINT) AS line FROM made.responses AS r LIMIT 0;
