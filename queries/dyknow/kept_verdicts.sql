-- The verdicts of some runs as of a day, with what the tables ask of them.
-- In:  $as_of, $known_at (may be NULL), $judge, $rule: as for verdicts; $runs, a list of runs.
-- Out: a table of the connection, which goes with it: one row a run, question and sample.
CREATE OR REPLACE TEMP TABLE kept_verdicts AS
SELECT v.run, v.domain, v.fact, v.subject, v.snapshot, v.counted, v.sample, v.verdict, v.counts_as, v.certain, v.possible,
       v.answer, v.label
FROM verdicts($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS v
WHERE list_contains(CAST($runs AS VARCHAR[]), v.run);
