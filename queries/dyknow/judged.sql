-- The verdict of every response as of a day, and the entity it rests on, for the comparison of judges.
-- In:  $as_of, $known_at (may be NULL), $judge.
-- Out: one row a run and question; a verdict of "later" counts as irrelevant.
SELECT v.run, v.question, coalesce(v.counts_as, v.verdict) AS verdict, v.entity
FROM verdicts($as_of, known_at := $known_at, judge := $judge) AS v
WHERE v.sample = 0
ORDER BY v.run, v.question;
