-- The verdict of every response as of a day.
-- In:  as_of     a date, or its text; or 'release': each run as of the day its model came out
--      known_at  the snapshot; NULL takes the oldest one not before as_of, else the newest
--      judge     'match' for our matcher, or the name of another judge. Whom such a judge saw named is judged for any day
--                like a match; a verdict without that holds for its own day: on another one it is unjudged, and an error
--                where the judge names nobody at all
--      rule      'latest' or 'study'
-- Out: one row a run, question and sample, with all that explains the verdict. answer is what "the same answer" compares.
--      certain: no choice of days inside the spans would change it. possible: some choice makes the answer up-to-date, be
--      it that of a holder whose successor may not have begun.
-- E.g. SELECT run, question, verdict, label FROM verdicts('2023-12-18') WHERE fact = 'Q36/P6'
CREATE OR REPLACE MACRO verdicts(as_of, known_at := NULL, judge := 'match', rule := 'latest') AS TABLE
WITH based AS (
  SELECT m.*, CAST(judge AS VARCHAR) AS judged_by FROM moments(as_of, known_at := known_at, rule := rule) AS m
),
read_by AS (
  SELECT r.run, r.question, r.fact, r.domain, r.subject, r.phrasing, r.counted, r.sample, r.status, r.text,
         b.on_date, b.on_day, b.by_rule, b.judged_by, b.snapshot, b.digest, c.status AS covered,
         m.matched, m.alias, m.match_rule, m.score, m.matcher_version,
         coalesce(m.entity, j.entity) AS entity, coalesce(m.reason, j.reason) AS reason,
         b.judged_by = 'match' OR coalesce(n.names, false) AS by_name,
         m.reason IS NOT NULL OR coalesce(j.named, false) AS is_read,
         j.verdict AS judged, j.start AS judged_start, CAST(j.as_of AS DATE) AS judged_for
  FROM based AS b
  JOIN responses AS r ON r.run = b.run
  LEFT JOIN facts AS f ON f.snapshot = b.snapshot AND f.fact = r.fact
  LEFT JOIN coverage AS c ON c.snapshot = b.snapshot AND c.fact = r.fact AND c.rule = b.by_rule
        AND c.from_day <= b.on_day AND (c.to_day IS NULL OR b.on_day < c.to_day)
  LEFT JOIN matches AS m ON b.judged_by = 'match' AND m.response_digest = r.response_digest AND m.fact = r.fact
        AND m.candidates_digest = f.candidates_digest
  LEFT JOIN judgments AS j ON b.judged_by <> 'match' AND j.judge = b.judged_by AND j.run = r.run
        AND j.question = r.question AND j.sample = r.sample
  LEFT JOIN (SELECT o.judge, bool_or(o.named) AS names FROM judgments AS o GROUP BY o.judge) AS n ON n.judge = b.judged_by
),
matched AS (
  SELECT t.*, l.label, s.standing, s.certain, s.from_day, s.to_day, s.start_day, s.end_day, s.statement,
         t.judged IS NOT NULL AND NOT t.is_read AND t.judged_for = t.on_date AS is_fixed
  FROM read_by AS t
  LEFT JOIN labels AS l ON l.snapshot = t.snapshot AND l.fact = t.fact AND l.entity = t.entity
  LEFT JOIN standings AS s ON s.snapshot = t.snapshot AND s.fact = t.fact AND s.entity = t.entity AND s.rule = t.by_rule
        AND s.from_day <= t.on_day AND (s.to_day IS NULL OR t.on_day < s.to_day)
),
judged AS (
  SELECT t.*,
         CASE
           WHEN t.by_name AND NOT t.is_fixed
                AND (t.covered IS NULL OR t.covered IN ('before the first record', 'not in this snapshot'))
             THEN 'not covered'
           WHEN t.status IN ('error', 'unanswered') THEN t.status
           WHEN t.is_fixed THEN t.judged
           WHEN t.is_read THEN CASE WHEN t.standing IN ('up-to-date', 'outdated', 'later') THEN t.standing ELSE 'irrelevant' END
           WHEN t.judged IS NOT NULL AND NOT t.by_name
             THEN error('The judge ' || t.judged_by || ' judged for ' || CAST(t.judged_for AS VARCHAR) || ' only, not for ' || CAST(t.on_date AS VARCHAR) || '.')
           WHEN t.status = 'refused' THEN 'irrelevant'
           ELSE 'unjudged'
         END AS verdict
  FROM matched AS t
)
SELECT v.run, v.question, v.fact, v.domain, v.subject, v.phrasing, v.counted, v.sample, v.verdict,
       CASE WHEN v.verdict = 'later' THEN 'irrelevant' WHEN v.verdict IN ('up-to-date', 'outdated', 'irrelevant') THEN v.verdict END AS counts_as,
       coalesce(v.certain, true) AS certain,
       CASE WHEN v.verdict IN ('up-to-date', 'outdated') THEN coalesce(v.entity, v.judged_start, 'unknown') END AS answer,
       CASE WHEN v.status = 'refused' THEN 'refusal' WHEN v.standing = 'not asked' THEN 'national team' ELSE v.reason END AS reason,
       v.entity, v.label, v.matched, v.alias, v.match_rule, v.score, v.standing, v.from_day, v.to_day, v.start_day, v.end_day,
       v.statement, v.snapshot, v.digest AS snapshot_digest, v.matcher_version, v.text, v.on_date,
       v.verdict = 'up-to-date' OR (v.verdict = 'outdated' AND NOT coalesce(v.certain, true) AND v.start_day IS NOT NULL)
         AS possible
FROM judged AS v;
