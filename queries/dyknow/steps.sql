-- How the sums behind the timeline change from one day to the next.
-- In:  as for timeline; split: as for part_of, whose parts then stand in the column domain.
-- Out: one row a run, domain (and "all") and place of a day among the days in order, from 1, at which a sum changes; the
--      place after the last says what ends then. Added up over the places until a day's, n, up_to_date, surely, possibly
--      and outdated are the facts that count as such on it under the soft constraint; n_average and the sums that begin
--      with mean_ those of their averages over phrasings.
-- E.g. FROM steps([20190101, 20210101, 20230101]) ORDER BY run, domain, place
CREATE OR REPLACE MACRO steps(days, known_at := NULL, judge := 'match', rule := 'latest', sample := 0, split := 'domain') AS TABLE
-- The one join of days and stretches is that of intervals, by fact; here a stretch adds to the sums of its run and domain
-- at its first day, and takes away after its last.
WITH turned AS (
  SELECT i.run, part_of(split, i.domain, i.fact, t.popularity, t.region, t.stratum) AS part,
         unnest([i.first_place, i.last_place + 1]) AS place, unnest([1, -1]) AS sign,
         CAST(i.verdict IN ('up-to-date', 'outdated', 'irrelevant') AS INTEGER) AS n,
         CAST(i.verdict = 'up-to-date' AS INTEGER) AS up_to_date,
         CAST(i.verdict = 'up-to-date' AND i.surely_up_to_date AS INTEGER) AS surely,
         CAST(i.verdict IN ('up-to-date', 'outdated', 'irrelevant') AND i.possibly_up_to_date AS INTEGER) AS possibly,
         CAST(i.verdict = 'outdated' AS INTEGER) AS outdated, CAST(i.rated > 0 AS INTEGER) AS n_average,
         coalesce(i.up_to_date, 0) AS mean_up_to_date, coalesce(i.surely, 0) AS mean_surely,
         coalesce(i.possibly, 0) AS mean_possibly, coalesce(i.outdated, 0) AS mean_outdated
  FROM intervals(known_at := known_at, judge := judge, rule := rule, sample := sample, among := days) AS i
  LEFT JOIN strata AS t ON t.run = i.run AND t.fact = i.fact
)
SELECT s.run, coalesce(s.part, 'all') AS domain, s.place, sum(s.sign * s.n) AS n, sum(s.sign * s.up_to_date) AS up_to_date,
       sum(s.sign * s.surely) AS surely, sum(s.sign * s.possibly) AS possibly, sum(s.sign * s.outdated) AS outdated,
       sum(s.sign * s.n_average) AS n_average, sum(s.sign * s.mean_up_to_date) AS mean_up_to_date, sum(s.sign * s.mean_surely) AS mean_surely,
       sum(s.sign * s.mean_possibly) AS mean_possibly, sum(s.sign * s.mean_outdated) AS mean_outdated
FROM turned AS s
GROUP BY GROUPING SETS ((s.run, s.part, s.place), (s.run, s.place));
