-- Whom the answers of each run name, counted: what all dates judge, and what the date a model answers from rests on.
-- In:  known_at, judge, sample: as for intervals.
-- Out: one row a run, fact and kind of answer, of the facts of that snapshot and the answers that count. kind is 'entity'
--      (with whom), 'none' (an answer that names none of the holders) or 'missing' (an error, no answer yet, or not read).
--      times counts the answers, firsts those of that one sample.
-- E.g. SELECT run, entity, times FROM said() WHERE fact = 'Q36/P6' AND kind = 'entity'
CREATE OR REPLACE MACRO said(known_at := NULL, judge := 'match', sample := 0) AS TABLE
WITH asked AS (SELECT CAST(judge AS VARCHAR) AS wanted, CAST(sample AS INTEGER) AS first_sample),
naming AS (SELECT DISTINCT n.judge FROM judgments AS n WHERE n.named),
based AS (
  SELECT s.snapshot, a.first_sample,
         CASE WHEN a.wanted = 'match' OR n.judge IS NOT NULL THEN a.wanted
              ELSE error('The judge ' || a.wanted || ' names nobody whom other days could judge.') END AS judged_by
  FROM asked AS a
  CROSS JOIN spanning(known_at := known_at) AS s
  LEFT JOIN naming AS n ON n.judge = a.wanted
)
SELECT b.snapshot, r.run, r.domain, r.fact,
       CASE WHEN r.status IN ('error', 'unanswered') THEN 'missing'
            WHEN coalesce(m.entity, j.entity) IS NOT NULL THEN 'entity'
            WHEN m.reason IS NOT NULL OR coalesce(j.named, false) OR r.status = 'refused' THEN 'none'
            ELSE 'missing' END AS kind,
       CASE WHEN r.status NOT IN ('error', 'unanswered') THEN coalesce(m.entity, j.entity) END AS entity,
       count(*) AS times, count(*) FILTER (WHERE r.sample = b.first_sample) AS firsts
FROM based AS b
JOIN facts AS f ON f.snapshot = b.snapshot
JOIN responses AS r ON r.fact = f.fact
LEFT JOIN matches AS m ON b.judged_by = 'match' AND m.response_digest = r.response_digest AND m.fact = r.fact
      AND m.candidates_digest = f.candidates_digest
LEFT JOIN judgments AS j ON b.judged_by <> 'match' AND j.judge = b.judged_by AND j.run = r.run
      AND j.question = r.question AND j.sample = r.sample
WHERE r.counted
GROUP BY ALL;
