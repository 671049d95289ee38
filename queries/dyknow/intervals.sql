-- What every fact of every run comes to, from day to day: all dates at once, where soft and table5 judge one.
-- In:  known_at  the one snapshot for all days; NULL: as for spanning
--      judge     'match', or another judge who says whom the answers name; one who gave verdicts for a day is an error
--      rule      'latest' or 'study'
--      sample    the sample the soft constraint judges: as for soft
--      among     a list of days, YYYYMMDD: only the stretches that hold one of them; NULL: all
-- Out: one row a run, fact and stretch of days [from_day, to_day) on which nothing changes, YYYYMMDD; the stretches of a
--      fact follow upon one another without gaps, the first begins before all days and the last one ends after them.
--      verdict and surely_up_to_date: as in soft. possibly_up_to_date: some choice of days inside the spans makes an answer
--      the right one, be it that of a holder whose successor may not have begun. rated, and the shares up_to_date, surely,
--      possibly, outdated and irrelevant: as in table5 before facts are averaged, NULL where no answer counts. first_place
--      and last_place: the first and last of the days of among in the stretch, by their places in order, from 1.
-- E.g. SELECT run, from_day, to_day, verdict FROM intervals() WHERE fact = 'Q36/P6' AND verdict = 'up-to-date'
CREATE OR REPLACE MACRO intervals(known_at := NULL, judge := 'match', rule := 'latest', sample := 0, among := NULL) AS TABLE
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
all_stretches AS (
  SELECT d.fact, d.day AS from_day, lead(d.day) OVER (PARTITION BY d.fact ORDER BY d.day) AS to_day
  FROM days AS d
),
wanted AS (
  SELECT u.day, row_number() OVER (ORDER BY u.day) AS place FROM (SELECT DISTINCT CAST(unnest(among) AS INTEGER) AS day) AS u
),
held AS (
  SELECT t.fact, t.from_day, t.to_day, NULL AS first_place, NULL AS last_place FROM all_stretches AS t WHERE among IS NULL
  UNION ALL
  SELECT t.fact, t.from_day, t.to_day, f.place, l.place
  FROM all_stretches AS t
  ASOF JOIN wanted AS f ON t.from_day <= f.day
  ASOF JOIN wanted AS l ON coalesce(t.to_day, 2147483647) > l.day
  WHERE l.place - f.place >= 0 -- a plain comparison would join clients of version 1.0 by two inequalities, which they refuse
),
-- From here on a stretch goes by a number: there are many answers, and names are slow to compare.
stretches AS MATERIALIZED (
  SELECT row_number() OVER () AS stretch, h.*, c.status NOT IN ('before the first record', 'not in this snapshot') AS covered
  FROM based AS b
  JOIN coverage AS c ON c.snapshot = b.snapshot AND c.rule = b.by_rule
  JOIN held AS h ON h.fact = c.fact AND c.from_day <= h.from_day AND (c.to_day IS NULL OR h.from_day < c.to_day)
),
-- What naming an entity amounts to, in bits: 1 up-to-date, 2 surely so, 4 possibly so, 8 outdated. An outdated holder whose
-- standing other days inside the spans would change may lead; one without a start cannot.
stood AS (
  SELECT t.stretch, s.entity,
         CASE WHEN s.standing = 'up-to-date' THEN 5 + CASE WHEN s.certain THEN 2 ELSE 0 END
              WHEN s.standing = 'outdated' AND NOT s.certain AND s.start_day IS NOT NULL THEN 12
              WHEN s.standing = 'outdated' THEN 8
              ELSE 0 END AS bits
  FROM based AS b
  JOIN standings AS s ON s.snapshot = b.snapshot AND s.rule = b.by_rule
  JOIN stretches AS t ON t.fact = s.fact AND s.from_day <= t.from_day AND (s.to_day IS NULL OR t.from_day < s.to_day)
),
-- And 16: an answer is missing. The soft constraint looks at one sample.
judged AS (
  SELECT a.run, a.domain, t.stretch, CASE WHEN a.kind = 'missing' THEN 0 ELSE a.times END AS rated, a.times,
         coalesce(s.bits, 0) AS bits,
         CASE WHEN a.firsts = 0 THEN 0 WHEN a.kind = 'missing' THEN 16 ELSE coalesce(s.bits, 0) END AS soft_bits
  FROM said(known_at := known_at, judge := judge, sample := sample) AS a
  JOIN stretches AS t ON t.fact = a.fact
  LEFT JOIN stood AS s ON s.stretch = t.stretch AND s.entity = a.entity
),
summed AS (
  SELECT j.run, min(j.domain) AS domain, j.stretch, bit_or(j.soft_bits) AS bits, sum(j.rated) AS rated,
         sum(j.times * (j.bits & 1)) AS up, sum(j.times * ((j.bits >> 1) & 1)) AS sure,
         sum(j.times * ((j.bits >> 2) & 1)) AS possible, sum(j.times * ((j.bits >> 3) & 1)) AS out
  FROM judged AS j
  GROUP BY j.run, j.stretch
)
SELECT u.run, u.domain, t.fact, t.from_day, t.to_day,
       CASE WHEN NOT t.covered THEN 'not covered'
            WHEN (u.bits & 1) > 0 THEN 'up-to-date'
            WHEN (u.bits & 16) > 0 THEN 'incomplete'
            WHEN (u.bits & 8) > 0 THEN 'outdated'
            ELSE 'irrelevant' END AS verdict,
       t.covered AND (u.bits & 2) > 0 AS surely_up_to_date,
       t.covered AND (u.bits & 4) > 0 AS possibly_up_to_date,
       CASE WHEN t.covered THEN u.rated ELSE 0 END AS rated,
       CASE WHEN t.covered THEN u.up / nullif(u.rated, 0) END AS up_to_date,
       CASE WHEN t.covered THEN u.sure / nullif(u.rated, 0) END AS surely,
       CASE WHEN t.covered THEN u.possible / nullif(u.rated, 0) END AS possibly,
       CASE WHEN t.covered THEN u.out / nullif(u.rated, 0) END AS outdated,
       CASE WHEN t.covered THEN (u.rated - u.up - u.out) / nullif(u.rated, 0) END AS irrelevant,
       t.first_place, t.last_place
FROM summed AS u JOIN stretches AS t ON t.stretch = u.stretch;
