-- How many facts of each popularity are up-to-date: what the trend of a run is worked out from.
-- In:  $as_of, $known_at (may be NULL), $judge, $rule: as for verdicts; $runs, a list of runs.
-- Out: one row a run, number of sitelinks and bin: n facts that are covered, complete and of known popularity, and how many
--      of them are up-to-date under the soft constraint.
SELECT s.run, t.sitelinks, t.popularity, count(*) AS n, count(*) FILTER (WHERE s.verdict = 'up-to-date') AS up_to_date
FROM soft($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS s
JOIN strata AS t ON t.run = s.run AND t.fact = s.fact
WHERE s.verdict IN ('up-to-date', 'outdated', 'irrelevant') AND t.sitelinks IS NOT NULL
  AND list_contains(CAST($runs AS VARCHAR[]), s.run)
GROUP BY s.run, t.sitelinks, t.popularity
ORDER BY s.run, t.sitelinks, t.popularity;
