-- Whom a response may name: the holders of every fact in any snapshot, in the order of time.
-- In:  nothing.
-- Out: one row a fact and entity: its label in the newest snapshot that has one, and of its statements the first day in
--      any snapshot and the last one in the newest that has it, YYYYMMDD; NULL where none is known, or the term is open;
--      and its labels in all snapshots.
WITH terms AS (
  SELECT s.snapshot, s.fact, s.entity, min(s.start_day) AS first_day,
         CASE WHEN bool_or(s.end_day IS NULL) THEN NULL ELSE max(s.end_day) END AS last_day
  FROM standings AS s
  WHERE s.rule = 'latest'
  GROUP BY s.snapshot, s.fact, s.entity
),
spans AS (
  SELECT t.fact, t.entity, min(t.first_day) AS first_day, arg_max({'day': t.last_day}, t.snapshot).day AS last_day
  FROM terms AS t
  GROUP BY t.fact, t.entity
),
named AS (
  SELECT l.fact, l.entity, arg_max(l.label, l.snapshot) AS label, list(DISTINCT l.label ORDER BY l.label) AS labels
  FROM labels AS l
  GROUP BY l.fact, l.entity
)
SELECT n.fact, n.entity, n.label, p.first_day, p.last_day, n.labels
FROM named AS n LEFT JOIN spans AS p ON p.fact = n.fact AND p.entity = n.entity
ORDER BY n.fact, p.first_day NULLS LAST, n.label, n.entity;
