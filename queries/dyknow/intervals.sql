-- What every fact of every run comes to, from day to day: all dates at once, where soft and table5 judge one.
-- In:  known_at  the one snapshot for all days; NULL: as for spanning
--      judge     'match', or another judge who says whom the answers name; one who gave verdicts for a day is an error
--      rule      'latest' or 'study'
--      sample    the sample the soft constraint judges: as for soft
-- Out: one row a run, fact and stretch of days [from_day, to_day) on which nothing changes, YYYYMMDD; the stretches of a
--      fact follow upon one another without gaps, the first begins before all days and the last one ends after them.
--      verdict and surely_up_to_date: as in soft. possibly_up_to_date: some choice of days inside the spans makes an answer
--      the right one, be it that of a holder whose successor may not have begun. rated, and the shares up_to_date, surely,
--      possibly, outdated and irrelevant: as in table5 before facts are averaged, NULL where no answer counts.
CREATE OR REPLACE MACRO intervals(known_at := NULL, judge := 'match', rule := 'latest', sample := 0) AS TABLE
WITH asked AS (SELECT CAST(rule AS VARCHAR) AS by_rule),
based AS (
  SELECT s.snapshot,
         CASE WHEN a.by_rule IN ('latest', 'study') THEN a.by_rule ELSE error('There is no rule ' || a.by_rule || '.') END AS by_rule
  FROM asked AS a CROSS JOIN spanning(known_at := known_at) AS s
),
days AS (
  SELECT c.fact, c.from_day AS day FROM based AS b JOIN coverage AS c ON c.snapshot = b.snapshot AND c.rule = b.by_rule
  UNION
  SELECT s.fact, s.from_day FROM based AS b JOIN standings AS s ON s.snapshot = b.snapshot AND s.rule = b.by_rule
  UNION
  SELECT s.fact, s.to_day FROM based AS b JOIN standings AS s ON s.snapshot = b.snapshot AND s.rule = b.by_rule
  WHERE s.to_day IS NOT NULL
),
stretches AS (
  SELECT d.fact, d.day AS from_day, lead(d.day) OVER (PARTITION BY d.fact ORDER BY d.day) AS to_day
  FROM days AS d
),
covered AS (
  SELECT t.fact, t.from_day, t.to_day, c.status NOT IN ('before the first record', 'not in this snapshot') AS covered
  FROM based AS b
  JOIN coverage AS c ON c.snapshot = b.snapshot AND c.rule = b.by_rule
  JOIN stretches AS t ON t.fact = c.fact AND c.from_day <= t.from_day AND (c.to_day IS NULL OR t.from_day < c.to_day)
),
stood AS (
  -- An outdated holder whose standing days inside the spans would change may lead; one without a start cannot.
  SELECT t.fact, t.from_day, s.entity, s.standing, s.certain,
         s.standing = 'up-to-date' OR (s.standing = 'outdated' AND NOT s.certain AND s.start_day IS NOT NULL) AS possible
  FROM based AS b
  JOIN standings AS s ON s.snapshot = b.snapshot AND s.rule = b.by_rule
  JOIN stretches AS t ON t.fact = s.fact AND s.from_day <= t.from_day AND (s.to_day IS NULL OR t.from_day < s.to_day)
),
judged AS (
  SELECT a.run, a.domain, a.fact, c.from_day, c.to_day, c.covered,
         CASE WHEN a.kind = 'missing' THEN 0 ELSE a.times END AS rated, a.kind = 'missing' AND a.firsts > 0 AS missing,
         a.times, a.firsts, s.standing, s.certain, coalesce(s.possible, false) AS possible
  FROM said(known_at := known_at, judge := judge, sample := sample) AS a
  JOIN covered AS c ON c.fact = a.fact
  LEFT JOIN stood AS s ON s.fact = a.fact AND s.entity = a.entity AND s.from_day = c.from_day
),
summed AS (
  SELECT j.run, j.domain, j.fact, j.from_day, any_value(j.to_day) AS to_day, bool_and(j.covered) AS covered,
         bool_or(j.standing = 'up-to-date' AND j.firsts > 0) AS any_up, bool_or(j.missing) AS any_missing,
         bool_or(j.standing = 'outdated' AND j.firsts > 0) AS any_out,
         bool_or(j.standing = 'up-to-date' AND j.certain AND j.firsts > 0) AS any_sure,
         bool_or(j.possible AND j.firsts > 0) AS any_possible, sum(j.rated) AS rated,
         sum(CASE WHEN j.possible THEN j.times ELSE 0 END) AS possible,
         sum(CASE WHEN j.standing = 'up-to-date' THEN j.times ELSE 0 END) AS up,
         sum(CASE WHEN j.standing = 'up-to-date' AND j.certain THEN j.times ELSE 0 END) AS sure,
         sum(CASE WHEN j.standing = 'outdated' THEN j.times ELSE 0 END) AS out
  FROM judged AS j
  GROUP BY j.run, j.domain, j.fact, j.from_day
)
SELECT u.run, u.domain, u.fact, u.from_day, u.to_day,
       CASE WHEN NOT u.covered THEN 'not covered'
            WHEN u.any_up THEN 'up-to-date'
            WHEN u.any_missing THEN 'incomplete'
            WHEN u.any_out THEN 'outdated'
            ELSE 'irrelevant' END AS verdict,
       u.covered AND coalesce(u.any_sure, false) AS surely_up_to_date,
       u.covered AND u.any_possible AS possibly_up_to_date,
       CASE WHEN u.covered THEN u.rated ELSE 0 END AS rated,
       CASE WHEN u.covered THEN u.up / nullif(u.rated, 0) END AS up_to_date,
       CASE WHEN u.covered THEN u.sure / nullif(u.rated, 0) END AS surely,
       CASE WHEN u.covered THEN u.possible / nullif(u.rated, 0) END AS possibly,
       CASE WHEN u.covered THEN u.out / nullif(u.rated, 0) END AS outdated,
       CASE WHEN u.covered THEN (u.rated - u.up - u.out) / nullif(u.rated, 0) END AS irrelevant
FROM summed AS u;
