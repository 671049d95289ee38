-- What every fact of a run adds to the figures of mass: what the intervals are drawn from.
-- In:  $as_of, $known_at (may be NULL), $rule, $split (as for part_of).
-- Out: one row a run and fact, of the facts that are covered; domain is the part it stands in; shares from 0 to 1, averaged over the counted phrasings.
WITH asked AS (
  SELECT b.run, b.domain, b.fact, b.question,
         coalesce(sum(b.share) FILTER (WHERE b.standing = 'up-to-date'), 0) AS up_to_date,
         coalesce(sum(b.share) FILTER (WHERE b.standing = 'outdated'), 0) AS outdated,
         coalesce(sum(b.share) FILTER (WHERE b.standing = 'later'), 0) AS later,
         any_value(b.standing) FILTER (WHERE b.place = 1) AS likeliest
  FROM beliefs($as_of, known_at := $known_at, rule := $rule) AS b
  WHERE b.counted
  GROUP BY b.run, b.domain, b.fact, b.question
)
SELECT a.run, any_value(part_of($split, a.domain, a.fact, t.popularity, t.region, t.stratum)) AS domain, a.fact,
       avg(a.up_to_date) AS up_to_date, avg(a.outdated) AS outdated, avg(a.later) AS later,
       avg(CASE WHEN a.likeliest = 'up-to-date' THEN 1 ELSE 0 END) AS first_up_to_date,
       avg(CASE WHEN a.likeliest = 'outdated' THEN 1 ELSE 0 END) AS first_outdated
FROM asked AS a LEFT JOIN strata AS t ON t.run = a.run AND t.fact = a.fact
GROUP BY a.run, a.domain, a.fact
ORDER BY a.run, a.fact;
