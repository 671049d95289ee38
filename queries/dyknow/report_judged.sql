-- How a judge judged every response as of a day, for judges other than the matcher.
-- In:  $as_of, $known_at (may be NULL), $judge, $rule; $runs, a list of runs.
-- Out: one row a run, question and sample.
SELECT v.run, v.question, v.sample, v.verdict, v.certain, v.answer
FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
WHERE list_contains(CAST($runs AS VARCHAR[]), v.run)
ORDER BY v.run, v.question, v.sample;
