-- The macro verdicts for as long as the verdicts of some runs are kept: what is asked of it, every table, asks those.
-- In:  as for verdicts; it returns what was kept, whatever is given.
-- Out: as of kept_verdicts.sql.
-- A temporary macro is found before that of the results.
CREATE OR REPLACE TEMP MACRO verdicts(as_of, known_at := NULL, judge := 'match', rule := 'latest') AS TABLE
FROM kept_verdicts;
