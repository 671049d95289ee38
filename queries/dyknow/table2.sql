-- Table 2: how often the phrasings of one fact are answered differently.
-- In:  as_of, known_at, judge, rule: as for verdicts; sample: as for soft.
-- Out: of the n facts with an up-to-date or outdated answer to any phrasing asked (those beside the three too), the
--      share in per cent whose counted answers do not agree. An irrelevant answer is a different one, and so are two
--      different holders. A fact asked in one phrasing has nothing to agree with, and an incomplete one is left out.
-- E.g. SELECT run, n, inconsistent FROM table2('2023-12-18')
CREATE OR REPLACE MACRO table2(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0) AS TABLE
WITH spread AS (
  SELECT v.run, v.fact, bool_or(v.answer IS NOT NULL) AND count(*) FILTER (WHERE v.counted) > 1 AS relevant,
         bool_or(v.counted AND v.counts_as IS NULL) AS incomplete,
         count(DISTINCT CASE WHEN v.counted THEN coalesce(v.answer, '') END) AS different
  FROM verdicts(as_of, known_at := known_at, judge := judge, rule := rule) AS v
  WHERE v.sample = sample
  GROUP BY v.run, v.fact
)
SELECT r.run, r.title, r.release_year, r.prefixed, count(*) FILTER (WHERE s.relevant AND NOT s.incomplete) AS n,
       100.0 * count(*) FILTER (WHERE s.relevant AND NOT s.incomplete AND s.different > 1)
         / nullif(count(*) FILTER (WHERE s.relevant AND NOT s.incomplete), 0) AS inconsistent
FROM spread AS s JOIN runs AS r ON r.run = s.run
GROUP BY r.run, r.title, r.release_year, r.prefixed
ORDER BY r.release_year NULLS LAST, r.run;
