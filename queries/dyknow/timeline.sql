-- The share of facts that are up-to-date, outdated and irrelevant as a function of the day, by run and domain.
-- In:  days      a list of days, YYYYMMDD
--      known_at  the one snapshot for all of them; judge, rule, sample: as for intervals
-- Out: one row a run, domain (and "all") and day, of the runs with a fact covered on that day. n facts count under the
--      soft constraint, as in table1, and the rates are in per cent of them; n_average facts count in the averages over
--      phrasings, as in table5. up_to_date_lower counts what is certain alone; up_to_date_upper counts every holder that
--      some choice of days lets lead: where a successor came "in 2023", until the end of 2023 both.
CREATE OR REPLACE MACRO timeline(days, known_at := NULL, judge := 'match', rule := 'latest', sample := 0) AS TABLE
WITH asked AS (SELECT DISTINCT unnest(days) AS day),
summed AS (
  SELECT i.run, coalesce(i.domain, 'all') AS domain, a.day,
         count(*) FILTER (WHERE i.verdict IN ('up-to-date', 'outdated', 'irrelevant')) AS n,
         count(*) FILTER (WHERE i.verdict = 'up-to-date') AS up_to_date,
         count(*) FILTER (WHERE i.verdict = 'up-to-date' AND i.surely_up_to_date) AS surely,
         count(*) FILTER (WHERE i.verdict IN ('up-to-date', 'outdated', 'irrelevant') AND i.possibly_up_to_date) AS possibly,
         count(*) FILTER (WHERE i.verdict = 'outdated') AS outdated,
         count(*) FILTER (WHERE i.verdict = 'irrelevant') AS irrelevant,
         count(*) FILTER (WHERE i.rated > 0) AS n_average, avg(i.up_to_date) AS mean_up_to_date, avg(i.surely) AS mean_surely,
         avg(i.possibly) AS mean_possibly,
         avg(i.outdated) AS mean_outdated, avg(i.irrelevant) AS mean_irrelevant
  FROM intervals(known_at := known_at, judge := judge, rule := rule, sample := sample) AS i
  JOIN asked AS a ON i.from_day <= a.day AND a.day < coalesce(i.to_day, 2147483647)
  GROUP BY GROUPING SETS ((i.run, i.domain, a.day), (i.run, a.day))
)
SELECT s.run, s.domain, s.day, s.n, 100.0 * s.up_to_date / nullif(s.n, 0) AS up_to_date,
       100.0 * s.surely / nullif(s.n, 0) AS up_to_date_lower,
       100.0 * s.possibly / nullif(s.n, 0) AS up_to_date_upper, 100.0 * s.outdated / nullif(s.n, 0) AS outdated,
       100.0 * s.irrelevant / nullif(s.n, 0) AS irrelevant, s.n_average, 100 * s.mean_up_to_date AS mean_up_to_date,
       100 * s.mean_surely AS mean_up_to_date_lower, 100 * s.mean_possibly AS mean_up_to_date_upper,
       100 * s.mean_outdated AS mean_outdated,
       100 * s.mean_irrelevant AS mean_irrelevant
FROM summed AS s
ORDER BY s.run, s.domain, s.day;
