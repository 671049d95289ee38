-- What each imported run named: figures without any text.
-- In:  nothing. Out: one row a run and question that was answered; entity and label are NULL where it named none.
--      A name that only one snapshot knows counts as named; where several know it, the newest speaks.
WITH read AS (
  SELECT r.run, r.question, r.fact, r.domain, r.subject, r.phrasing, r.counted, m.entity, m.reason, l.label,
         row_number() OVER (PARTITION BY r.run, r.question ORDER BY m.entity IS NULL, f.snapshot DESC) AS place
  FROM responses AS r
  JOIN facts AS f ON f.fact = r.fact
  JOIN matches AS m ON m.response_digest = r.response_digest AND m.fact = r.fact AND m.candidates_digest = f.candidates_digest
  LEFT JOIN labels AS l ON l.snapshot = f.snapshot AND l.fact = r.fact AND l.entity = m.entity
  WHERE r.status = 'ok' AND r.sample = 0
)
SELECT e.run, u.title, u.release_year, CASE WHEN u.prefixed THEN 'true' ELSE 'false' END AS prefixed,
       e.fact, e.domain, e.subject, e.phrasing, CASE WHEN e.counted THEN 'true' ELSE 'false' END AS counted,
       e.entity, e.label, e.reason
FROM read AS e JOIN runs AS u ON u.run = e.run
WHERE e.place = 1 AND u.kind = 'imported'
ORDER BY e.run, e.fact, e.phrasing;
