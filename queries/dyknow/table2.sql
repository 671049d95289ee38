-- Table 2: how often the phrasings of one fact are answered differently.
-- In:  as_of, known_at, judge, rule: as for verdicts; sample: as for soft; split: as for part_of, or 'all' for a row a run.
-- Out: of the n facts with an up-to-date or outdated answer to any phrasing asked (those beside the three too), the
--      share in per cent whose counted answers do not agree. An irrelevant answer is a different one, and so are two
--      different holders. A fact asked in one phrasing has nothing to agree with, and an incomplete one is left out.
--      domain is the part of the facts, or 'all'.
-- E.g. SELECT run, n, inconsistent FROM table2('2023-12-18')
CREATE OR REPLACE MACRO table2(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0, split := 'all') AS TABLE
WITH spread AS (
  SELECT v.run, v.domain, v.fact, bool_or(v.answer IS NOT NULL) AND count(*) FILTER (WHERE v.counted) > 1 AS relevant,
         bool_or(v.counted AND v.counts_as IS NULL) AS incomplete,
         count(DISTINCT CASE WHEN v.counted THEN coalesce(v.answer, '') END) AS different
  FROM verdicts(as_of, known_at := known_at, judge := judge, rule := rule) AS v
  WHERE v.sample = sample
  GROUP BY v.run, v.domain, v.fact
),
divided AS (
  SELECT a.run, a.relevant AND NOT a.incomplete AS counts, a.different,
         part_of(split, a.domain, a.fact, t.popularity, t.region, t.stratum) AS part
  FROM spread AS a LEFT JOIN strata AS t ON t.run = a.run AND t.fact = a.fact
),
counted AS (
  SELECT d.run, coalesce(d.part, 'all') AS domain, count(*) FILTER (WHERE d.counts) AS n,
         count(*) FILTER (WHERE d.counts AND d.different > 1) AS differing
  FROM divided AS d
  GROUP BY GROUPING SETS ((d.run, d.part), (d.run))
)
SELECT DISTINCT c.run, r.title, r.release_year, r.prefixed, c.n, 100.0 * c.differing / nullif(c.n, 0) AS inconsistent,
       c.domain
FROM counted AS c JOIN runs AS r ON r.run = c.run
ORDER BY r.release_year NULLS LAST, c.run, c.domain;
