-- The runs that were asked more than what they were edited for: those that tables of all facts are about.
-- In:  nothing.
-- Out: one row a run, by name.
SELECT r.run
FROM runs AS r
WHERE r.method IS NULL
   OR EXISTS (SELECT 1 FROM responses AS a
              WHERE a.run = r.run AND a.fact NOT IN (SELECT e.fact FROM edits AS e WHERE e.run = r.run))
ORDER BY r.run;
