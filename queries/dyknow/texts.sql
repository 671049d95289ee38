-- What a run answered, question by question, and how that was judged as of a day.
-- In:  $run, $as_of, $known_at (may be NULL), $judge, $rule.
-- Out: one row a question and sample, by domain, subject and phrasing.
SELECT v.question, v.fact, v.domain, v.subject, coalesce(f.office, f.property) AS office, v.phrasing, r.text, v.verdict,
       v.reason, v.label
FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
JOIN responses AS r ON r.run = v.run AND r.question = v.question AND r.sample = v.sample
LEFT JOIN facts AS f ON f.snapshot = v.snapshot AND f.fact = v.fact
WHERE v.run = $run
ORDER BY v.domain, v.subject, v.fact, v.phrasing, v.sample;
