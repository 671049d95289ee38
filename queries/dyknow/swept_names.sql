-- Which runs and domains sweep.sql numbers.
-- In:  $split (as for part_of). Out: one row a run and domain ("all" too), in the order of their numbers.
SELECT n.run, n.domain
FROM (
  SELECT DISTINCT a.run, unnest([part_of($split, a.domain, a.fact, t.popularity, t.region, t.stratum), 'all']) AS domain
  FROM (SELECT DISTINCT r.run, r.domain, r.fact FROM responses AS r WHERE r.counted) AS a
  LEFT JOIN strata AS t ON t.run = a.run AND t.fact = a.fact
) AS n
ORDER BY n.run, n.domain;
