-- The facts that a run gets wrong as of a day, each with what it answered and with those who would be right.
-- In:  $run, $as_of, $known_at (may be NULL), $judge, $rule.
-- Out: one row a fact and up-to-date holder, the latest start first; verdict is the soft constraint's. before is the
--      outdated or up-to-date entity that the run names in most of its phrasings, by label where several tie.
WITH answered AS (
  SELECT v.fact, v.entity, v.label, v.verdict,
         row_number() OVER (PARTITION BY v.fact, v.verdict ORDER BY count(*) DESC, v.label, v.entity) AS place
  FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
  WHERE v.run = $run AND v.counted AND v.sample = 0 AND v.verdict IN ('up-to-date', 'outdated')
  GROUP BY v.fact, v.entity, v.label, v.verdict
)
SELECT s.fact, s.domain, s.subject, s.verdict, a.entity AS before_entity, a.label AS before,
       t.entity AS target_entity, l.label AS target
FROM soft($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS s
JOIN moments($as_of, known_at := $known_at, rule := $rule) AS m ON m.run = s.run
JOIN standings AS t ON t.snapshot = s.snapshot AND t.fact = s.fact AND t.rule = $rule AND t.standing = 'up-to-date'
     AND t.from_day <= m.on_day AND (t.to_day IS NULL OR m.on_day < t.to_day)
JOIN labels AS l ON l.snapshot = t.snapshot AND l.fact = t.fact AND l.entity = t.entity
LEFT JOIN answered AS a ON a.fact = s.fact AND a.verdict = s.verdict AND a.place = 1
WHERE s.run = $run
ORDER BY s.domain, s.fact, t.start_day DESC NULLS LAST, l.label, t.entity;
