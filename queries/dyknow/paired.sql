-- Two runs, or one run by two judges, fact by fact as of a day.
-- In:  $first, $second (runs), $first_judge, $second_judge, $as_of, $known_at (may be NULL), $rule, $split (as for
--      part_of; where the runs tell different things of a fact, the first counts).
-- Out: one row a fact that either was asked, by domain (the part it stands in) and subject: verdict under the soft constraint, and the answer that
--      it rests on: the holder's label, else the first phrasing's text. NULL where a run was not asked the fact.
WITH judged AS (
  SELECT 1 AS side, s.* FROM soft($as_of, known_at := $known_at, judge := $first_judge, rule := $rule) AS s
  WHERE s.run = $first
  UNION ALL
  SELECT 2 AS side, s.* FROM soft($as_of, known_at := $known_at, judge := $second_judge, rule := $rule) AS s
  WHERE s.run = $second
),
texts AS (
  SELECT r.run, r.fact, min_by(r.text, r.phrasing) AS text
  FROM responses AS r
  WHERE r.run IN ($first, $second) AND r.counted AND r.sample = 0 AND r.text IS NOT NULL
  GROUP BY r.run, r.fact
),
answered AS (
  SELECT j.side, part_of($split, j.domain, j.fact, p.popularity, p.region, p.stratum) AS part, j.fact, j.subject, j.snapshot, j.verdict,
         coalesce(CASE j.verdict WHEN 'up-to-date' THEN j.right_answer WHEN 'outdated' THEN j.outdated_answer END, t.text) AS answer
  FROM judged AS j
  LEFT JOIN texts AS t ON t.run = j.run AND t.fact = j.fact
  LEFT JOIN strata AS p ON p.run = j.run AND p.fact = j.fact
)
SELECT coalesce(a.fact, b.fact) AS fact, coalesce(a.part, b.part) AS domain, coalesce(a.subject, b.subject) AS subject,
       f.office, a.verdict AS first_verdict, b.verdict AS second_verdict, a.answer AS first_answer, b.answer AS second_answer
FROM (SELECT * FROM answered WHERE side = 1) AS a
FULL JOIN (SELECT * FROM answered WHERE side = 2) AS b ON b.fact = a.fact
LEFT JOIN facts AS f ON f.snapshot = coalesce(a.snapshot, b.snapshot) AND f.fact = coalesce(a.fact, b.fact)
ORDER BY domain, subject, fact;
