-- The steps of the timeline with numbers for names, for many runs and days.
-- In:  $days, $known_at (may be NULL: as for spanning), $judge, $rule, $split (as for part_of); $runs, a list of runs, or NULL for all of them.
-- Out: one row a step; place as in steps; name, from 0, is that of the run and domain in swept_names.sql.
WITH named AS (
  SELECT n.run, n.domain, row_number() OVER (ORDER BY n.run, n.domain) - 1 AS name
  FROM (
    SELECT DISTINCT a.run, unnest([part_of($split, a.domain, a.fact, t.popularity, t.region, t.stratum), 'all']) AS domain
    FROM (SELECT DISTINCT r.run, r.domain, r.fact FROM responses AS r WHERE r.counted) AS a
    LEFT JOIN strata AS t ON t.run = a.run AND t.fact = a.fact
  ) AS n
)
SELECT n.name, s.* EXCLUDE (run, domain)
FROM steps($days, known_at := $known_at, judge := $judge, rule := $rule, split := $split) AS s
JOIN named AS n ON n.run = s.run AND n.domain = s.domain
WHERE $runs IS NULL OR list_contains(CAST($runs AS VARCHAR[]), s.run);
