-- What editing and retrieval achieved, for the report.
-- In:  $as_of, $known_at (may be NULL), $judge, $rule: as for verdicts; $runs, the names of the runs shown.
-- Out: one row a run and domain, and one for all domains; rates in per cent of n facts.
SELECT s.title AS model, s.method, s.mode, s.edits, s.domain AS facts, s.n, s.efficacy, s.paraphrase,
       s.harmonic_mean AS "harmonic mean", s.soft AS "any phrasing"
FROM edit_scores($as_of, known_at := $known_at, judge := $judge, rule := $rule) AS s
WHERE list_contains($runs, s.run)
ORDER BY s.title, s.method, s.mode, s.edits, s.run, s.domain = 'all', s.domain;
