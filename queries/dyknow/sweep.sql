-- The steps of the timeline with numbers for names, for many runs and days.
-- In:  $days, $known_at (may be NULL: as for spanning), $judge, $rule; $runs, a list of runs, or NULL for all of them.
-- Out: one row a step; place as in steps; name, from 0, is that of the run and domain in swept_names.sql.
WITH named AS (
  SELECT n.run, n.domain, row_number() OVER (ORDER BY n.run, n.domain) - 1 AS name
  FROM (SELECT DISTINCT r.run, unnest([r.domain, 'all']) AS domain FROM responses AS r WHERE r.counted) AS n
)
SELECT n.name, s.* EXCLUDE (run, domain)
FROM steps($days, known_at := $known_at, judge := $judge, rule := $rule) AS s
JOIN named AS n ON n.run = s.run AND n.domain = s.domain
WHERE $runs IS NULL OR list_contains(CAST($runs AS VARCHAR[]), s.run);
