-- The one snapshot that a sweep over dates rests on.
-- In:  known_at  the snapshot; NULL takes the newest of those that hold the whole history of enough facts
-- Out: one row. Enough are nine tenths of what the best of them holds: an extract of newer statements has gaps where a
--      model's knowledge may lie, and one history less is no reason to stay behind.
-- E.g. FROM spanning()
CREATE OR REPLACE MACRO spanning(known_at := NULL) AS TABLE
WITH whole AS (
  SELECT s.snapshot, s.day, s.digest, count(*) FILTER (WHERE f.whole) AS held
  FROM snapshots AS s LEFT JOIN facts AS f ON f.snapshot = s.snapshot
  GROUP BY s.snapshot, s.day, s.digest
),
chosen AS (
  SELECT coalesce(CAST(known_at AS VARCHAR),
                  (SELECT max(w.snapshot) FROM whole AS w WHERE w.held >= 0.9 * (SELECT max(b.held) FROM whole AS b))) AS named
)
SELECT CASE WHEN w.snapshot IS NULL THEN error('There is no snapshot ' || coalesce(c.named, 'at all') || '.') ELSE c.named END AS snapshot,
       w.day, w.digest
FROM chosen AS c LEFT JOIN whole AS w ON w.snapshot = c.named;
