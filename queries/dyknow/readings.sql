-- What each model said to each question, and whom our matcher reads in it.
-- In:  nothing: a view. The names are those of the snapshot that spanning() takes.
-- Out: one row a run, question and sample. label is whom the text names, NULL where that is nobody; reason says why.
-- E.g. SELECT run, text, label, reason FROM readings WHERE subject = 'Italy' AND counted
CREATE OR REPLACE VIEW readings AS
SELECT r.run, u.title, r.question, r.fact, r.domain, r.subject, f.office, r.phrasing, r.counted, r.sample, r.prompt, r.text,
       r.status, m.entity, l.label, m.matched, m.match_rule, coalesce(m.reason, r.status) AS reason
FROM responses AS r
JOIN runs AS u ON u.run = r.run
CROSS JOIN spanning() AS s
LEFT JOIN facts AS f ON f.snapshot = s.snapshot AND f.fact = r.fact
LEFT JOIN matches AS m ON m.response_digest = r.response_digest AND m.fact = r.fact AND m.candidates_digest = f.candidates_digest
LEFT JOIN labels AS l ON l.snapshot = s.snapshot AND l.fact = r.fact AND l.entity = m.entity;
