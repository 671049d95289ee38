-- What every run answered, and whom each text names by each snapshot: what the report is made of.
-- In:  $runs, the names of the runs; $snapshots, those of the snapshots.
-- Out: one row a response and snapshot that has the fact (one without snapshot where none has it), with all that does not
--      depend on a day.
SELECT r.run, r.question, r.fact, r.domain, r.subject, r.phrasing, r.counted, r.sample, r.status, r.prompt, r.text,
       f.snapshot, coalesce(f.office, f.property) AS office, m.entity, l.label, m.reason, m.matched, m.alias, m.match_rule,
       m.score
FROM responses AS r
LEFT JOIN facts AS f ON f.fact = r.fact AND list_contains($snapshots, f.snapshot)
LEFT JOIN matches AS m ON m.response_digest = r.response_digest AND m.fact = r.fact
     AND m.candidates_digest = f.candidates_digest AND r.status NOT IN ('error', 'unanswered', 'refused')
LEFT JOIN labels AS l ON l.snapshot = f.snapshot AND l.fact = r.fact AND l.entity = m.entity
WHERE list_contains($runs, r.run)
ORDER BY r.run, r.domain, r.subject, r.fact, r.phrasing, r.sample, f.snapshot;
