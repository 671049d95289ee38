-- What each imported run named: figures without any text.
-- In:  nothing. Out: one row a run and question that was answered; entity and label are NULL where it named none.
WITH preferred AS (
  SELECT l.fact, l.entity, arg_max(l.label, l.snapshot) AS label FROM labels AS l GROUP BY l.fact, l.entity
),
known AS (
  SELECT f.fact, arg_max(f.candidates_digest, f.snapshot) AS candidates_digest FROM facts AS f GROUP BY f.fact
)
SELECT r.run, u.title, u.release_year, CASE WHEN u.prefixed THEN 'true' ELSE 'false' END AS prefixed,
       r.fact, r.domain, r.subject, r.phrasing, CASE WHEN r.counted THEN 'true' ELSE 'false' END AS counted,
       m.entity, p.label, m.reason
FROM responses AS r
JOIN runs AS u ON u.run = r.run AND u.kind = 'imported'
JOIN known AS k ON k.fact = r.fact
JOIN matches AS m ON m.response_digest = r.response_digest AND m.fact = r.fact AND m.candidates_digest = k.candidates_digest
LEFT JOIN preferred AS p ON p.fact = r.fact AND p.entity = m.entity
WHERE r.status = 'ok' AND r.sample = 0
ORDER BY r.run, r.fact, r.phrasing;
