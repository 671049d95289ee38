-- Tables 1 and 4: rates under the soft constraint, by run and domain, and over all domains.
-- In:  as_of, known_at, judge, rule: as for verdicts; sample: as for soft; split: as for part_of, whose parts then stand
--      in the column domain.
-- Out: rates in per cent of n, the facts that are covered and complete. up_to_date counts standings that precision leaves
--      open; up_to_date_lower the certain ones only; up_to_date_upper also a holder whose successor may not have begun.
-- E.g. SELECT run, n, up_to_date, outdated FROM table1('2023-12-18') WHERE domain = 'all'
CREATE OR REPLACE MACRO table1(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0, split := 'domain') AS TABLE
WITH divided AS (
  SELECT s.*, part_of(split, s.domain, s.fact, t.popularity, t.region, t.stratum) AS part
  FROM soft(as_of, known_at := known_at, judge := judge, rule := rule, sample := sample) AS s
  LEFT JOIN strata AS t ON t.run = s.run AND t.fact = s.fact
),
counted AS (
  SELECT s.run, coalesce(s.part, 'all') AS domain, count(*) AS facts,
         count(*) FILTER (WHERE s.verdict IN ('up-to-date', 'outdated', 'irrelevant')) AS n,
         count(*) FILTER (WHERE s.verdict = 'up-to-date') AS up_to_date,
         count(*) FILTER (WHERE s.verdict = 'up-to-date' AND s.surely_up_to_date) AS surely,
         count(*) FILTER (WHERE s.verdict IN ('up-to-date', 'outdated', 'irrelevant') AND s.possibly_up_to_date) AS possibly,
         count(*) FILTER (WHERE s.verdict = 'outdated') AS outdated,
         count(*) FILTER (WHERE s.verdict = 'irrelevant') AS irrelevant,
         count(*) FILTER (WHERE s.verdict = 'incomplete') AS incomplete,
         count(*) FILTER (WHERE s.verdict = 'not covered') AS not_covered
  FROM divided AS s
  GROUP BY GROUPING SETS ((s.run, s.part), (s.run))
)
SELECT c.run, r.title, r.release_year, r.prefixed, c.domain, c.facts, c.n,
       100.0 * c.up_to_date / nullif(c.n, 0) AS up_to_date, 100.0 * c.outdated / nullif(c.n, 0) AS outdated,
       100.0 * c.irrelevant / nullif(c.n, 0) AS irrelevant, 100.0 * c.surely / nullif(c.n, 0) AS up_to_date_lower,
       100.0 * c.possibly / nullif(c.n, 0) AS up_to_date_upper, c.incomplete, c.not_covered
FROM counted AS c JOIN runs AS r ON r.run = c.run
ORDER BY r.release_year NULLS LAST, c.run, c.domain;
