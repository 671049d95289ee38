-- Every response that can be judged, with what our matcher reads in it.
-- In:  $as_of, the day the matcher's verdict is for; $known_at (may be NULL).
-- Out: one row a run, question and sample that has a text; the verdict is as of that day.
SELECT v.run, v.question, v.sample, v.fact, v.subject, f.office, r.prompt, r.text, r.response_digest, r.finish_reason,
       v.entity, v.label, v.reason, v.matched, v.alias, v.match_rule, v.score, v.verdict, CAST(v.on_date AS VARCHAR) AS as_of
FROM verdicts($as_of, known_at := $known_at) AS v
JOIN responses AS r ON r.run = v.run AND r.question = v.question AND r.sample = v.sample
LEFT JOIN facts AS f ON f.snapshot = v.snapshot AND f.fact = v.fact
WHERE r.status = 'ok' AND r.text IS NOT NULL
ORDER BY v.run, v.question, v.sample;
