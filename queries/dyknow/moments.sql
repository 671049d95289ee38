-- The day each run is judged as of, and the snapshot its verdicts rest on.
-- In:  as_of     a date, or its text; or 'release': each run as of the day its model came out
--      known_at  the snapshot; NULL takes for each run the oldest one not before its day, else the newest
--      rule      'latest' or 'study'
-- Out: one row a run; with 'release' only the runs whose day or year of release is known.
-- E.g. SELECT run, on_date, snapshot FROM moments('release')
CREATE OR REPLACE MACRO moments(as_of, known_at := NULL, rule := 'latest') AS TABLE
WITH dated AS (
  SELECT r.run, CAST(known_at AS VARCHAR) AS wanted, CAST(rule AS VARCHAR) AS by_rule,
         CASE WHEN CAST(as_of AS VARCHAR) = 'release' THEN r.released
              ELSE CAST(nullif(CAST(as_of AS VARCHAR), 'release') AS DATE) END AS on_date
  FROM runs AS r
),
numbered AS (
  SELECT d.*, year(d.on_date) * 10000 + month(d.on_date) * 100 + day(d.on_date) AS on_day
  FROM dated AS d
  WHERE d.on_date IS NOT NULL
),
chosen AS (
  SELECT m.*, coalesce(
    m.wanted,
    (SELECT min(n.snapshot) FROM snapshots AS n WHERE n.day >= m.on_day),
    (SELECT max(n.snapshot) FROM snapshots AS n)) AS named
  FROM numbered AS m
)
SELECT c.run, c.on_date, c.on_day, c.by_rule, n.digest,
       CASE WHEN n.digest IS NULL THEN error('There is no snapshot ' || c.named || '.')
            WHEN c.by_rule NOT IN ('latest', 'study') THEN error('There is no rule ' || c.by_rule || '.')
            ELSE c.named END AS snapshot
FROM chosen AS c LEFT JOIN snapshots AS n ON n.snapshot = c.named;
