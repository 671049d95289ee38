-- The verdicts of one date, as dyknow export results writes them.
-- In:  $as_of, $known_at (may be NULL), $judge, $rule: as for verdicts; $runs, a list of runs, or NULL for all of them.
-- Out: as of verdicts, sorted, with as_of, the date as it was asked for, before them.
SELECT CAST($as_of AS VARCHAR) AS as_of, v.*
FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
WHERE $runs IS NULL OR list_contains(CAST($runs AS VARCHAR[]), v.run)
ORDER BY ALL;
