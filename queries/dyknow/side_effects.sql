-- What an edited run changed beside its edits: every fact's verdict before and after.
-- In:  $run (an edited run whose base run asked the same facts), $as_of, $known_at (may be NULL), $judge, $rule.
-- Out: one row for each role, verdict before and verdict after. role: edited; same class, of a property that was edited
--      in that domain; other. same_answer counts facts whose every counted phrasing was answered word for word as before.
WITH judged AS (
  SELECT s.run, s.fact, s.domain, s.verdict
  FROM soft($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS s
),
texts AS (
  SELECT b.fact, bool_and(b.text IS NOT DISTINCT FROM a.text) AS same
  FROM runs AS u
  JOIN responses AS b ON b.run = u.base_run AND b.counted AND b.sample = 0
  JOIN responses AS a ON a.run = u.run AND a.question = b.question AND a.sample = 0
  WHERE u.run = $run
  GROUP BY b.fact
),
paired AS (
  SELECT before.fact, before.domain, split_part(before.fact, '/', 2) AS property, before.verdict AS verdict_before,
         after.verdict AS verdict_after, e.fact IS NOT NULL AS edited
  FROM runs AS u
  JOIN judged AS before ON before.run = u.base_run
  JOIN judged AS after ON after.run = u.run AND after.fact = before.fact
  LEFT JOIN edits AS e ON e.run = u.run AND e.fact = before.fact
  WHERE u.run = $run
)
SELECT CASE WHEN p.edited THEN 'edited'
            WHEN EXISTS (SELECT 1 FROM paired AS q WHERE q.edited AND q.domain = p.domain AND q.property = p.property)
            THEN 'same class' ELSE 'other' END AS role,
       p.verdict_before, p.verdict_after, count(*) AS facts, count(*) FILTER (WHERE t.same) AS same_answer
FROM paired AS p LEFT JOIN texts AS t ON t.fact = p.fact
GROUP BY role, p.verdict_before, p.verdict_after
ORDER BY role, p.verdict_before, p.verdict_after;
