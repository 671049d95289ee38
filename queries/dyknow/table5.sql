-- Table 5: rates averaged over the phrasings and samples of each fact, by run and domain, and over all domains.
-- In:  as_of, known_at, judge, rule: as for verdicts; split: as for table1.
-- Out: rates in per cent, bounds as in table1; n is the number of facts with at least one answer that counts.
-- E.g. SELECT run, n, up_to_date, outdated FROM table5('2023-12-18') WHERE domain = 'countries'
CREATE OR REPLACE MACRO table5(as_of, known_at := NULL, judge := 'match', rule := 'latest', split := 'domain') AS TABLE
WITH averaged AS (
  SELECT v.run, v.domain, v.fact, count(v.counts_as) AS rated, bool_or(v.verdict = 'not covered') AS uncovered,
         avg(CASE WHEN v.counts_as = 'up-to-date' THEN 1.0 WHEN v.counts_as IS NOT NULL THEN 0.0 END) AS up_to_date,
         avg(CASE WHEN v.counts_as = 'up-to-date' AND v.certain THEN 1.0 WHEN v.counts_as IS NOT NULL THEN 0.0 END) AS surely,
         avg(CASE WHEN v.counts_as IS NOT NULL AND v.possible THEN 1.0 WHEN v.counts_as IS NOT NULL THEN 0.0 END) AS possibly,
         avg(CASE WHEN v.counts_as = 'outdated' THEN 1.0 WHEN v.counts_as IS NOT NULL THEN 0.0 END) AS outdated,
         avg(CASE WHEN v.counts_as = 'irrelevant' THEN 1.0 WHEN v.counts_as IS NOT NULL THEN 0.0 END) AS irrelevant
  FROM verdicts(as_of, known_at := known_at, judge := judge, rule := rule) AS v
  WHERE v.counted
  GROUP BY v.run, v.domain, v.fact
),
divided AS (
  SELECT v.*, part_of(split, v.domain, v.fact, t.popularity, t.region, t.stratum) AS part
  FROM averaged AS v LEFT JOIN strata AS t ON t.run = v.run AND t.fact = v.fact
),
counted AS (
  SELECT a.run, coalesce(a.part, 'all') AS domain, count(*) AS facts, count(*) FILTER (WHERE a.rated > 0) AS n,
         100 * avg(a.up_to_date) AS up_to_date, 100 * avg(a.outdated) AS outdated, 100 * avg(a.irrelevant) AS irrelevant,
         100 * avg(a.surely) AS surely, 100 * avg(a.possibly) AS possibly, count(*) FILTER (WHERE a.rated = 0 AND NOT a.uncovered) AS incomplete,
         count(*) FILTER (WHERE a.uncovered) AS not_covered
  FROM divided AS a
  GROUP BY GROUPING SETS ((a.run, a.part), (a.run))
)
SELECT c.run, r.title, r.release_year, r.prefixed, c.domain, c.facts, c.n, c.up_to_date, c.outdated, c.irrelevant,
       c.surely AS up_to_date_lower, c.possibly AS up_to_date_upper, c.incomplete, c.not_covered
FROM counted AS c JOIN runs AS r ON r.run = c.run
ORDER BY r.release_year NULLS LAST, c.run, c.domain;
