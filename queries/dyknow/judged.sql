-- What a judge says of every response as of a day, for the comparison of judges.
-- In:  $as_of, $known_at (may be NULL), $judge.
-- Out: one row a run, question and sample; a verdict of "later" counts as irrelevant. names: whether the judge sees an
--      entity named; NULL where that is not told. kind: the matcher's rule, or why it finds nobody; empty for other judges.
SELECT v.run, v.question, v.sample, coalesce(v.counts_as, v.verdict) AS verdict, v.entity,
       CASE WHEN $judge = 'match' OR j.named THEN v.entity IS NOT NULL END AS names,
       CASE WHEN $judge = 'match' THEN coalesce(nullif(v.match_rule, ''), v.reason) ELSE '' END AS kind,
       v.label, v.matched, v.text
FROM verdicts($as_of, known_at := $known_at, judge := $judge) AS v
LEFT JOIN judgments AS j ON j.judge = $judge AND j.run = v.run AND j.question = v.question AND j.sample = v.sample
ORDER BY v.run, v.question, v.sample;
