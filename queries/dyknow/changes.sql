-- The facts whose verdict under the soft constraint differs between two days.
-- In:  $run, $before, $after (dates), $judge, $rule.
-- Out: one row a fact, with what the model answered.
SELECT a.fact, a.domain, a.subject, f.office,
       coalesce(b.right_answer, a.right_answer, a.outdated_answer, b.outdated_answer) AS answer,
       a.verdict AS before, b.verdict AS after
FROM soft($before, judge := $judge, rule := $rule) AS a
JOIN soft($after, judge := $judge, rule := $rule) AS b ON b.run = a.run AND b.fact = a.fact
LEFT JOIN facts AS f ON f.snapshot = a.snapshot AND f.fact = a.fact
WHERE a.run = $run AND a.verdict <> b.verdict
ORDER BY a.domain, a.subject, a.fact;
