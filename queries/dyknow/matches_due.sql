-- The answers that are not matched yet to a snapshot's names.
-- In:  nothing; reads the tables that are being made.
-- Out: one row an answer and set of names, those of one set together; equal answers of several runs are each a row, one
--      after the other.
SELECT r.response_digest, f.fact, f.candidates_digest, coalesce(r.prompt, '') AS prompt, coalesce(r.text, '') AS text
FROM made.responses AS r
JOIN made.runs AS u ON u.run = r.run
JOIN (SELECT DISTINCT fact, candidates_digest FROM made.facts) AS f ON f.fact = r.fact
WHERE r.status = 'ok' AND u.kind IS DISTINCT FROM 'named'
  AND NOT EXISTS (SELECT 1 FROM made.matches AS m
                  WHERE m.response_digest = r.response_digest AND m.fact = f.fact
                    AND m.candidates_digest = f.candidates_digest)
ORDER BY f.fact, f.candidates_digest, r.response_digest;
