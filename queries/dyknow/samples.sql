-- How the samples of each fact are distributed, and how far a model agrees with itself.
-- In:  as_of, known_at, judge, rule: as for verdicts.
-- Out: one row a run and fact, of the runs that asked every question more than once. n answers count: all samples of all
--      counted phrasings, but errors and missing ones. up_to_date, outdated and other are per cent of n. self_consistency
--      is, in per cent, the share of the entity most often named among the samples of one phrasing (0 where none names
--      any), averaged over the phrasings: phrasings that differ are Table 2's matter. most_named is the entity most often
--      named over all, by label; of several equally often named the first by label.
-- E.g. SELECT run, fact, most_named, self_consistency FROM samples('2023-12-18') ORDER BY self_consistency
CREATE OR REPLACE MACRO samples(as_of, known_at := NULL, judge := 'match', rule := 'latest') AS TABLE
WITH rated AS (
  SELECT v.run, v.domain, v.fact, v.subject, v.phrasing, v.counts_as, coalesce(v.entity, v.answer) AS named, v.label
  FROM verdicts(as_of, known_at := known_at, judge := judge, rule := rule) AS v
  JOIN runs AS r ON r.run = v.run
  WHERE v.counted AND v.counts_as IS NOT NULL AND r.samples > 1
),
often AS (
  SELECT e.run, e.fact, e.phrasing, e.named, count(*) AS times
  FROM rated AS e
  GROUP BY e.run, e.fact, e.phrasing, e.named
),
agreeing AS (
  SELECT o.run, o.fact, o.phrasing, 1.0 * max(CASE WHEN o.named IS NULL THEN 0 ELSE o.times END) / sum(o.times) AS share
  FROM often AS o
  GROUP BY o.run, o.fact, o.phrasing
),
consistent AS (
  SELECT a.run, a.fact, 100 * avg(a.share) AS self_consistency FROM agreeing AS a GROUP BY a.run, a.fact
),
most AS (
  SELECT e.run, e.fact, coalesce(e.label, e.named) AS name,
         row_number() OVER (PARTITION BY e.run, e.fact ORDER BY count(*) DESC, coalesce(e.label, e.named)) AS place
  FROM rated AS e
  WHERE e.named IS NOT NULL
  GROUP BY e.run, e.fact, e.named, coalesce(e.label, e.named)
),
spread AS (
  SELECT e.run, e.domain, e.fact, any_value(e.subject) AS subject, count(*) AS n,
         100.0 * count(*) FILTER (WHERE e.counts_as = 'up-to-date') / count(*) AS up_to_date,
         100.0 * count(*) FILTER (WHERE e.counts_as = 'outdated') / count(*) AS outdated,
         100.0 * count(*) FILTER (WHERE e.counts_as = 'irrelevant') / count(*) AS other
  FROM rated AS e
  GROUP BY e.run, e.domain, e.fact
)
SELECT s.run, s.domain, s.fact, s.subject, s.n, s.up_to_date, s.outdated, s.other, c.self_consistency, m.name AS most_named
FROM spread AS s
JOIN consistent AS c ON c.run = s.run AND c.fact = s.fact
LEFT JOIN most AS m ON m.run = s.run AND m.fact = s.fact AND m.place = 1
ORDER BY s.run, s.domain, s.subject, s.fact;
