-- What an edited run changed beside its edits: every fact's verdict before and after.
-- In:  edited_run, whose base run asked the same facts; as_of, known_at, judge, rule: as for verdicts.
-- Out: one row for each role, verdict before and verdict after. role: edited; same class, of a property that was edited
--      in that domain; other. same_answer counts facts whose every counted phrasing was answered word for word as before.
-- E.g. FROM side_effects('smollm2_rome-2023-12-18', '2023-12-18')
CREATE OR REPLACE MACRO side_effects(edited_run, as_of, known_at := NULL, judge := 'match', rule := 'latest') AS TABLE
WITH judged AS (
  SELECT s.run, s.fact, s.domain, s.verdict
  FROM soft(as_of, known_at := known_at, judge := judge, rule := rule) AS s
),
texts AS (
  SELECT b.fact, bool_and(b.text IS NOT DISTINCT FROM a.text) AS same
  FROM runs AS u
  JOIN responses AS b ON b.run = u.base_run AND b.counted AND b.sample = 0
  JOIN responses AS a ON a.run = u.run AND a.question = b.question AND a.sample = 0
  WHERE u.run = edited_run
  GROUP BY b.fact
),
paired AS (
  SELECT b.fact, b.domain, split_part(b.fact, '/', 2) AS property, b.verdict AS verdict_before,
         a.verdict AS verdict_after, e.fact IS NOT NULL AS is_edited
  FROM runs AS u
  JOIN judged AS b ON b.run = u.base_run
  JOIN judged AS a ON a.run = u.run AND a.fact = b.fact
  LEFT JOIN edits AS e ON e.run = u.run AND e.fact = b.fact
  WHERE u.run = edited_run
),
classes AS (
  SELECT DISTINCT p.domain, p.property FROM paired AS p WHERE p.is_edited
)
SELECT CASE WHEN p.is_edited THEN 'edited' WHEN c.domain IS NOT NULL THEN 'same class' ELSE 'other' END AS role,
       p.verdict_before, p.verdict_after, count(*) AS facts, count(*) FILTER (WHERE t.same) AS same_answer
FROM paired AS p
LEFT JOIN texts AS t ON t.fact = p.fact
LEFT JOIN classes AS c ON c.domain = p.domain AND c.property = p.property
GROUP BY ALL
ORDER BY role, p.verdict_before, p.verdict_after;
