-- What every fact of a run adds to the rates of Tables 1, 5 and 2: what the intervals are drawn from.
-- In:  $as_of, $known_at (may be NULL), $judge, $rule, $split (as for part_of); $runs, a list of runs, or NULL for all.
-- Out: one row a run and fact; domain is the part it stands in. verdict, surely and possibly as in soft (Table 1);
--      averaged: the shares of its answers that are up-to-date, outdated, irrelevant, surely and possibly up-to-date, NULL
--      where none counts (Table 5); inconsistent: whether its phrasings are answered differently, NULL where it is not in
--      Table 2's n.
WITH spread AS (
  SELECT v.run, v.domain, v.fact, count(v.counts_as) FILTER (WHERE v.counted) AS rated,
         count(*) FILTER (WHERE v.counted AND v.counts_as = 'up-to-date') AS up_to_date,
         count(*) FILTER (WHERE v.counted AND v.counts_as = 'up-to-date' AND v.certain) AS surely,
         count(*) FILTER (WHERE v.counted AND v.counts_as IS NOT NULL AND v.possible) AS possibly,
         count(*) FILTER (WHERE v.counted AND v.counts_as = 'outdated') AS outdated,
         count(*) FILTER (WHERE v.counted AND v.counts_as = 'irrelevant') AS irrelevant,
         bool_or(v.answer IS NOT NULL) FILTER (WHERE v.sample = 0) AS answered,
         count(*) FILTER (WHERE v.sample = 0 AND v.counted) AS asked,
         count(*) FILTER (WHERE v.sample = 0 AND v.counted AND v.counts_as IS NULL) AS missing,
         count(DISTINCT CASE WHEN v.sample = 0 AND v.counted THEN coalesce(v.answer, '') END) AS different
  FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
  WHERE $runs IS NULL OR list_contains(CAST($runs AS VARCHAR[]), v.run)
  GROUP BY v.run, v.domain, v.fact
),
settled AS (
  FROM soft($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS s
  WHERE $runs IS NULL OR list_contains(CAST($runs AS VARCHAR[]), s.run)
)
SELECT e.run, part_of($split, e.domain, e.fact, t.popularity, t.region, t.stratum) AS domain, e.fact, s.verdict,
       s.surely_up_to_date AS surely, s.possibly_up_to_date AS possibly,
       e.up_to_date / nullif(e.rated, 0) AS averaged_up_to_date, e.outdated / nullif(e.rated, 0) AS averaged_outdated,
       e.irrelevant / nullif(e.rated, 0) AS averaged_irrelevant, e.surely / nullif(e.rated, 0) AS averaged_surely,
       e.possibly / nullif(e.rated, 0) AS averaged_possibly,
       CASE WHEN e.answered AND e.asked > 1 AND e.missing = 0 THEN e.different > 1 END AS inconsistent
FROM spread AS e
LEFT JOIN settled AS s ON s.run = e.run AND s.fact = e.fact
LEFT JOIN strata AS t ON t.run = e.run AND t.fact = e.fact
ORDER BY e.run, e.fact;
