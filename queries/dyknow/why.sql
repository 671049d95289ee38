-- All that explains the verdict of one response.
-- In:  $run, $question, $as_of, $known_at (may be NULL), $judge, $rule.
-- Out: one row a sample; empty where the run has no such question.
SELECT v.*, r.prompt, f.office,
       (SELECT list(l.label ORDER BY l.label)
        FROM standings AS s JOIN labels AS l ON l.snapshot = s.snapshot AND l.fact = s.fact AND l.entity = s.entity
        WHERE s.snapshot = v.snapshot AND s.fact = v.fact AND s.rule = $rule AND s.standing = 'up-to-date'
          AND s.from_day <= year(CAST($as_of AS DATE)) * 10000 + month(CAST($as_of AS DATE)) * 100 + day(CAST($as_of AS DATE))
          AND (s.to_day IS NULL
               OR year(CAST($as_of AS DATE)) * 10000 + month(CAST($as_of AS DATE)) * 100 + day(CAST($as_of AS DATE)) < s.to_day)
       ) AS up_to_date
FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
JOIN responses AS r ON r.run = v.run AND r.question = v.question AND r.sample = v.sample
LEFT JOIN facts AS f ON f.snapshot = v.snapshot AND f.fact = v.fact
WHERE v.run = $run AND v.question = $question
ORDER BY v.sample;
