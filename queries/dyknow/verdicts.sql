-- The verdict of every response as of a day.
-- In:  as_of     a date, or its text; or 'release': each run as of the day its model came out
--      known_at  the snapshot; NULL takes the oldest one not before as_of, else the newest
--      judge     'match' for our matcher, or the name of a judge whose verdicts were imported
--      rule      'latest' or 'study'
-- Out: one row a run, question and sample, with all that explains the verdict. answer is what "the same answer" compares.
CREATE OR REPLACE MACRO verdicts(as_of, known_at := NULL, judge := 'match', rule := 'latest') AS TABLE
WITH based AS (
  SELECT m.*, CAST(judge AS VARCHAR) AS judged_by FROM moments(as_of, known_at := known_at, rule := rule) AS m
),
matched AS (
  SELECT r.run, r.question, r.fact, r.domain, r.subject, r.phrasing, r.counted, r.sample, r.status, r.text,
         b.on_date, b.on_day, b.judged_by, b.snapshot, b.digest, c.status AS covered,
         m.entity, m.reason, m.matched, m.alias, m.match_rule, m.score, m.matcher_version,
         l.label, s.standing, s.certain, s.from_day, s.to_day, s.start_day, s.end_day, s.statement,
         j.verdict AS judged, j.start AS judged_start, j.as_of AS judged_for
  FROM based AS b
  JOIN responses AS r ON r.run = b.run
  LEFT JOIN facts AS f ON f.snapshot = b.snapshot AND f.fact = r.fact
  LEFT JOIN coverage AS c ON c.snapshot = b.snapshot AND c.fact = r.fact AND c.rule = b.by_rule
        AND c.from_day <= b.on_day AND (c.to_day IS NULL OR b.on_day < c.to_day)
  LEFT JOIN matches AS m ON b.judged_by = 'match' AND m.response_digest = r.response_digest AND m.fact = r.fact
        AND m.candidates_digest = f.candidates_digest
  LEFT JOIN labels AS l ON l.snapshot = b.snapshot AND l.fact = r.fact AND l.entity = m.entity
  LEFT JOIN standings AS s ON s.snapshot = b.snapshot AND s.fact = r.fact AND s.entity = m.entity AND s.rule = b.by_rule
        AND s.from_day <= b.on_day AND (s.to_day IS NULL OR b.on_day < s.to_day)
  LEFT JOIN judgments AS j ON b.judged_by <> 'match' AND j.judge = b.judged_by AND j.run = r.run
        AND j.question = r.question AND j.sample = r.sample
),
judged AS (
  SELECT t.*,
         CASE
           WHEN t.judged_by = 'match' AND (t.covered IS NULL OR t.covered IN ('before the first record', 'not in this snapshot'))
             THEN 'not covered'
           WHEN t.status IN ('error', 'unanswered') THEN t.status
           WHEN t.judged_by <> 'match' THEN CASE
             WHEN t.judged IS NULL THEN 'unjudged'
             WHEN CAST(t.judged_for AS DATE) <> t.on_date
               THEN error('The judge ' || t.judged_by || ' judged for ' || t.judged_for || ' only, not for ' || CAST(t.on_date AS VARCHAR) || '.')
             ELSE t.judged END
           WHEN t.status = 'refused' THEN 'irrelevant'
           WHEN t.reason IS NULL THEN 'unjudged'
           WHEN t.standing IN ('up-to-date', 'outdated', 'later') THEN t.standing
           ELSE 'irrelevant'
         END AS verdict
  FROM matched AS t
)
SELECT v.run, v.question, v.fact, v.domain, v.subject, v.phrasing, v.counted, v.sample, v.verdict,
       CASE WHEN v.verdict = 'later' THEN 'irrelevant' WHEN v.verdict IN ('up-to-date', 'outdated', 'irrelevant') THEN v.verdict END AS counts_as,
       CASE WHEN v.judged_by <> 'match' THEN v.judged IS NOT NULL ELSE coalesce(v.certain, true) END AS certain,
       CASE WHEN v.verdict IN ('up-to-date', 'outdated') THEN coalesce(v.entity, v.judged_start, 'unknown') END AS answer,
       CASE WHEN v.status = 'refused' THEN 'refusal' WHEN v.standing = 'not asked' THEN 'national team' ELSE v.reason END AS reason,
       v.entity, v.label, v.matched, v.alias, v.match_rule, v.score, v.standing, v.from_day, v.to_day, v.start_day, v.end_day,
       v.statement, v.snapshot, v.digest AS snapshot_digest, v.matcher_version, v.text, v.on_date
FROM judged AS v;
