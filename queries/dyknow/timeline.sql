-- The share of facts that are up-to-date, outdated and irrelevant as a function of the day, by run and domain.
-- In:  days      a list of days, YYYYMMDD
--      known_at  the one snapshot for all of them; judge, rule, sample: as for intervals; split: as for part_of, whose parts then stand in
--                the column domain
-- Out: one row a run, domain (and "all") and day, of the runs with a fact covered on that day. n facts count under the
--      soft constraint, as in table1, and the rates are in per cent of them; n_average facts count in the averages over
--      phrasings, as in table5. up_to_date_lower counts what is certain alone; up_to_date_upper counts every holder that
--      some choice of days lets lead: where a successor came "in 2023", until the end of 2023 both.
-- E.g. SELECT run, day, up_to_date FROM timeline([20190101, 20210101, 20230101]) WHERE domain = 'all'
CREATE OR REPLACE MACRO timeline(days, known_at := NULL, judge := 'match', rule := 'latest', sample := 0, split := 'domain') AS TABLE
WITH asked AS (
  SELECT u.day, row_number() OVER (ORDER BY u.day) AS place
  FROM (SELECT DISTINCT CAST(unnest(days) AS INTEGER) AS day) AS u
),
stepped AS MATERIALIZED (FROM steps(days, known_at := known_at, judge := judge, rule := rule, sample := sample, split := split)),
cells AS (
  SELECT g.run, g.domain, a.place, a.day
  FROM (SELECT DISTINCT s.run, s.domain FROM stepped AS s) AS g CROSS JOIN asked AS a
),
summed AS (
  SELECT c.run, c.domain, c.day,
         sum(s.n) OVER days AS n,
         sum(s.up_to_date) OVER days AS up_to_date,
         sum(s.surely) OVER days AS surely,
         sum(s.possibly) OVER days AS possibly,
         sum(s.outdated) OVER days AS outdated,
         sum(s.n_average) OVER days AS n_average,
         sum(s.mean_up_to_date) OVER days AS mean_up_to_date,
         sum(s.mean_surely) OVER days AS mean_surely,
         sum(s.mean_possibly) OVER days AS mean_possibly,
         sum(s.mean_outdated) OVER days AS mean_outdated
  FROM cells AS c LEFT JOIN stepped AS s ON s.run = c.run AND s.domain = c.domain AND s.place = c.place
  WINDOW days AS (PARTITION BY c.run, c.domain ORDER BY c.place ROWS UNBOUNDED PRECEDING)
)
SELECT s.run, s.domain, s.day, CAST(s.n AS BIGINT) AS n, 100.0 * s.up_to_date / nullif(s.n, 0) AS up_to_date,
       100.0 * s.surely / nullif(s.n, 0) AS up_to_date_lower, 100.0 * s.possibly / nullif(s.n, 0) AS up_to_date_upper,
       100.0 * s.outdated / nullif(s.n, 0) AS outdated,
       100.0 * (s.n - s.up_to_date - s.outdated) / nullif(s.n, 0) AS irrelevant, CAST(s.n_average AS BIGINT) AS n_average,
       100 * s.mean_up_to_date / nullif(s.n_average, 0) AS mean_up_to_date,
       100 * s.mean_surely / nullif(s.n_average, 0) AS mean_up_to_date_lower,
       100 * s.mean_possibly / nullif(s.n_average, 0) AS mean_up_to_date_upper,
       100 * s.mean_outdated / nullif(s.n_average, 0) AS mean_outdated,
       100 * (s.n_average - s.mean_up_to_date - s.mean_outdated) / nullif(s.n_average, 0) AS mean_irrelevant
FROM summed AS s
WHERE s.n IS NOT NULL
ORDER BY s.run, s.domain, s.day;
