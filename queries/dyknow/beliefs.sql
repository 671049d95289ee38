-- How likely a model holds each holder of a fact to be, and what that holder is as of a day.
-- In:  as_of, known_at, rule: as for verdicts.
-- Out: one row a run, question and holder, of the holders the snapshot has and the question asks for (no national teams) and
--      the facts it covers. score is the log-probability per token, so that a long name is no worse for being long; place is
--      the rank by it. share is the probability of the holder if the answer is one of these, weighed by score;
--      share_by_total weighs by the log-probability of the whole name.
-- E.g. SELECT run, question, label, standing, share FROM beliefs('2023-12-18') WHERE place = 1
CREATE OR REPLACE MACRO beliefs(as_of, known_at := NULL, rule := 'latest') AS TABLE
WITH held AS (
  SELECT k.run, k.question, k.fact, k.domain, k.subject, k.phrasing, k.counted, k.entity, k.label, k.logprob, k.tokens,
         k.logprob / k.tokens AS score, s.standing, s.certain, b.snapshot
  FROM moments(as_of, known_at := known_at, rule := rule) AS b
  JOIN likelihoods AS k ON k.run = b.run
  JOIN standings AS s ON s.snapshot = b.snapshot AND s.fact = k.fact AND s.entity = k.entity AND s.rule = b.by_rule
       AND s.from_day <= b.on_day AND (s.to_day IS NULL OR b.on_day < s.to_day)
  JOIN coverage AS c ON c.snapshot = b.snapshot AND c.fact = k.fact AND c.rule = b.by_rule
       AND c.from_day <= b.on_day AND (c.to_day IS NULL OR b.on_day < c.to_day)
  WHERE s.standing <> 'not asked' AND c.status NOT IN ('before the first record', 'not in this snapshot')
),
weighed AS (
  SELECT h.*, exp(h.score - max(h.score) OVER (PARTITION BY h.run, h.question)) AS weight,
         exp(h.logprob - max(h.logprob) OVER (PARTITION BY h.run, h.question)) AS weight_by_total
  FROM held AS h
)
SELECT w.run, w.question, w.fact, w.domain, w.subject, w.phrasing, w.counted, w.entity, w.label, w.standing, w.certain,
       w.logprob, w.tokens, w.score,
       row_number() OVER (PARTITION BY w.run, w.question ORDER BY w.score DESC, w.entity) AS place,
       w.weight / sum(w.weight) OVER (PARTITION BY w.run, w.question) AS share,
       w.weight_by_total / sum(w.weight_by_total) OVER (PARTITION BY w.run, w.question) AS share_by_total, w.snapshot
FROM weighed AS w;
