-- What every fact of a run adds to the shares of since_release: what the intervals are drawn from.
-- In:  $as_of (the later day), $known_at (may be NULL), $judge, $rule, $split (as for part_of).
-- Out: one row a run and fact that is covered and complete on both days; domain is the part it stands in. 1 where it was outdated when the model came out,
--      and 1 where it was up-to-date then and is outdated as of the later day.
SELECT a.run, part_of($split, a.domain, a.fact, t.popularity, t.region, t.stratum) AS domain, a.fact,
       CAST(a.verdict = 'outdated' AS INTEGER) AS outdated_at_release,
       CAST(a.verdict = 'up-to-date' AND b.verdict = 'outdated' AS INTEGER) AS outdated_since
FROM soft('release', known_at := $known_at, judge := $judge, rule := $rule) AS a
JOIN soft($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS b ON b.run = a.run AND b.fact = a.fact
JOIN runs AS r ON r.run = a.run
LEFT JOIN strata AS t ON t.run = a.run AND t.fact = a.fact
WHERE r.released <= CAST($as_of AS DATE)
  AND a.verdict IN ('up-to-date', 'outdated', 'irrelevant') AND b.verdict IN ('up-to-date', 'outdated', 'irrelevant')
ORDER BY a.run, a.fact;
