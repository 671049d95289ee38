-- What the edits achieved against their number (Figure 3 of the study).
-- In:  as_of, known_at, judge, rule: as for verdicts; sample: as for soft.
-- Out: one row a run, of the models that one method was given several numbers of edits with one preset and seed;
--      share is the per cent that edits is of of_edits. The figures are edit_scores' over all domains.
-- E.g. FROM edit_curve('2023-12-18')
CREATE OR REPLACE MACRO edit_curve(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0) AS TABLE
WITH points AS (
  SELECT s.*, count(DISTINCT s.edits) OVER (PARTITION BY s.model, s.method, s.mode, s.preset, s.seed) AS numbers
  FROM edit_scores(as_of, known_at := known_at, judge := judge, rule := rule, sample := sample) AS s
  WHERE s.domain = 'all'
)
SELECT p.model, p.method, p.mode, p.preset, p.seed, p.run, p.edits, p.of_edits, 100.0 * p.edits / p.of_edits AS share, p.n,
       p.efficacy, p.paraphrase, p.harmonic_mean, p.arithmetic_mean, p.soft
FROM points AS p
WHERE p.numbers > 1
ORDER BY p.model, p.method, p.mode, p.preset, p.seed, p.edits, p.run;
