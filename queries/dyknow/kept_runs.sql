-- The runs of the results, or some of them, under the same name: for as long as this table is there, the macros know no
-- others on this connection.
-- In:  $runs, a list of runs.
-- Out: a table of the connection, which goes with it: as of runs.
CREATE TEMP TABLE runs AS
FROM runs WHERE list_contains(CAST($runs AS VARCHAR[]), run);
