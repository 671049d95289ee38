-- What the edits of each run's model achieved (Tables 3, 7 and 8 of the study), by run and domain, and over all domains.
-- In:  as_of, known_at, judge, rule: as for verdicts; sample: as for soft; split: as for part_of, whose
--      parts then stand in the column domain.
-- Out: of n, the facts whose counted questions are all answered, covered and judged: efficacy, the per cent whose edited
--      question is answered right; paraphrase, the per cent of their other questions, pooled; harmonic_mean of these two
--      figures (Table 3; 0 where both are 0), and arithmetic_mean; soft, the per cent of facts with a right answer to any of
--      the questions (Table 7). Right is an up-to-date answer; after a deletion, one that names nobody known. mark and
--      soft_mark: the study's ‡, over 85 %. Domain 'all' pools the facts of all domains, as Figure 3 does.
-- E.g. SELECT run, domain, n, efficacy, paraphrase, harmonic_mean FROM edit_scores('2023-12-18')
CREATE OR REPLACE MACRO edit_scores(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0, split := 'domain') AS TABLE
WITH asked AS (
  SELECT e.run, e.domain, e.fact, e.operation, e.edit_question AS question, true AS edited FROM edits AS e
  UNION ALL
  SELECT e.run, e.domain, e.fact, e.operation, unnest(e.paraphrases), false FROM edits AS e
),
answered AS (
  SELECT v.run, v.question, v.counts_as
  FROM verdicts(as_of, known_at := known_at, judge := judge, rule := rule) AS v
  WHERE v.sample = sample
),
rated AS (
  SELECT a.run, a.domain, a.fact, a.edited, b.counts_as IS NOT NULL AS counts,
         coalesce(b.counts_as = CASE a.operation WHEN 'delete' THEN 'irrelevant' ELSE 'up-to-date' END, false) AS hit
  FROM asked AS a LEFT JOIN answered AS b ON b.run = a.run AND b.question = a.question
),
by_fact AS (
  SELECT r.run, r.domain, r.fact, bool_and(r.counts) AS complete, bool_or(r.hit AND r.edited) AS edit_hit,
         count(*) FILTER (WHERE NOT r.edited) AS others, count(*) FILTER (WHERE r.hit AND NOT r.edited) AS other_hits,
         bool_or(r.hit) AS any_hit
  FROM rated AS r
  GROUP BY r.run, r.domain, r.fact
),
divided AS (
  SELECT b.*, part_of(split, b.domain, b.fact, t.popularity, t.region, t.stratum) AS part
  FROM by_fact AS b LEFT JOIN strata AS t ON t.run = b.run AND t.fact = b.fact
),
shares AS (
  SELECT f.run, coalesce(f.part, 'all') AS domain, count(*) AS facts, count(*) FILTER (WHERE f.complete) AS n,
         100.0 * count(*) FILTER (WHERE f.complete AND f.edit_hit) / nullif(count(*) FILTER (WHERE f.complete), 0) AS efficacy,
         100.0 * sum(f.other_hits) FILTER (WHERE f.complete) / nullif(sum(f.others) FILTER (WHERE f.complete), 0) AS paraphrase,
         100.0 * count(*) FILTER (WHERE f.complete AND f.any_hit) / nullif(count(*) FILTER (WHERE f.complete), 0) AS soft
  FROM divided AS f
  GROUP BY GROUPING SETS ((f.run, f.part), (f.run))
),
means AS (
  SELECT s.*, (s.efficacy + s.paraphrase) / 2 AS arithmetic_mean,
         CASE WHEN s.efficacy + s.paraphrase = 0 THEN 0.0
              ELSE 2 * s.efficacy * s.paraphrase / (s.efficacy + s.paraphrase) END AS harmonic_mean
  FROM shares AS s
)
SELECT m.run, r.title, r.model, r.method, r.edit_mode AS mode, r.edit_preset AS preset, r.edit_seed AS seed,
       r.edit_count AS edits, r.edits_of AS of_edits, m.domain, m.facts, m.n, m.efficacy, m.paraphrase, m.harmonic_mean,
       m.arithmetic_mean, m.soft, CASE WHEN m.harmonic_mean > 85 THEN '‡' ELSE '' END AS mark,
       CASE WHEN m.soft > 85 THEN '‡' ELSE '' END AS soft_mark
FROM means AS m JOIN runs AS r ON r.run = m.run
ORDER BY r.model, r.method, r.edit_mode, r.edit_count, m.run, m.domain;
