-- Who held what from when to when, as the statements have it.
-- In:  nothing: a view.
-- Out: one row a snapshot, fact, holder and statement. start_day is the earliest first day and end_day the latest end, YYYYMMDD;
--      NULL: not told, so with no end perhaps still in office. since and until are the same as dates. National teams, for
--      which no question asks, are left out. Who is right on a day the verdicts say: not each term ends where the next begins.
-- E.g. SELECT label, since, until FROM terms WHERE fact = 'Q38/P6' AND snapshot = '2023-12-18' AND since >= '2010-01-01'
CREATE OR REPLACE VIEW terms AS
WITH told AS (
  SELECT DISTINCT s.snapshot, s.fact, s.entity, s.statement, s.start_day, s.end_day
  FROM standings AS s
  WHERE s.rule = 'latest' AND s.standing <> 'not asked' AND s.statement IS NOT NULL
)
SELECT t.snapshot, t.fact, f.subject, f.office, t.entity, l.label, t.start_day, t.end_day,
       CASE WHEN t.start_day >= 10000 THEN make_date(t.start_day // 10000, t.start_day // 100 % 100, t.start_day % 100) END AS since,
       CASE WHEN t.end_day >= 10000 THEN make_date(t.end_day // 10000, t.end_day // 100 % 100, t.end_day % 100) END AS until,
       t.statement
FROM told AS t
JOIN facts AS f ON f.snapshot = t.snapshot AND f.fact = t.fact
LEFT JOIN labels AS l ON l.snapshot = t.snapshot AND l.fact = t.fact AND l.entity = t.entity;
