-- What each imported run of an edited model named: figures without any text.
-- In:  nothing. Out: one row a run, edited fact and counted question that was answered, in the order of the edits and, within
--      one, the edited question first; entity is NULL where nobody known was named, published where no label was.
WITH asked AS (
  SELECT e.run, e.fact, e.position, e.edit_question AS question, 0 AS place FROM edits AS e
  UNION ALL
  SELECT e.run, e.fact, e.position, unnest(e.paraphrases), unnest(range(1, len(e.paraphrases) + 1)) FROM edits AS e
),
named AS (
  SELECT r.run, r.question, r.subject, m.entity, m.reason,
         row_number() OVER (PARTITION BY r.run, r.question ORDER BY m.entity IS NULL, f.snapshot DESC) AS newest
  FROM responses AS r
  JOIN facts AS f ON f.fact = r.fact
  JOIN matches AS m ON m.response_digest = r.response_digest AND m.fact = r.fact AND m.candidates_digest = f.candidates_digest
  WHERE r.status = 'ok' AND r.sample = 0
)
SELECT a.run, a.fact, a.question, n.subject, n.entity, n.reason, j.verdict AS published
FROM asked AS a
JOIN runs AS u ON u.run = a.run
JOIN named AS n ON n.run = a.run AND n.question = a.question AND n.newest = 1
LEFT JOIN judgments AS j ON j.run = a.run AND j.question = a.question AND j.sample = 0 AND j.judge = 'published'
WHERE u.kind = 'imported'
ORDER BY a.run, a.position, a.place;
