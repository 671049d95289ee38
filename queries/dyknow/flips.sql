-- One run on two days, by two clocks: which verdicts changed, and what was right on either side.
-- In:  $run, $before and $after (days), $known_before and $known_after (their snapshots), $judge, $rule.
-- Out: one row a fact, by domain and subject. then: its verdict as of the earlier day by that day's snapshot; between: as of
--      the earlier day by the later day's snapshot; now: as of the later day by that one. then/between is Wikidata's doing,
--      between/now the world's. lacking: one of the snapshots holds an extract of the fact and in it nobody whom the run
--      named by the other one, so that "between" cannot be told from a term that was left out. right_*: the up-to-date
--      holders as labels with their terms and statements.
WITH judged AS (
  SELECT 'then' AS side, $before AS as_of, s.*
  FROM soft($before, known_at := $known_before, judge := $judge, rule := $rule) AS s WHERE s.run = $run
  UNION ALL
  SELECT 'between' AS side, $before AS as_of, s.*
  FROM soft($before, known_at := $known_after, judge := $judge, rule := $rule) AS s WHERE s.run = $run
  UNION ALL
  SELECT 'now' AS side, $after AS as_of, s.*
  FROM soft($after, known_at := $known_after, judge := $judge, rule := $rule) AS s WHERE s.run = $run
),
named AS (
  SELECT DISTINCT v.fact, v.entity, v.snapshot, v.start_day
  FROM verdicts($before, known_at := $known_before, judge := $judge, rule := $rule) AS v
  WHERE v.run = $run AND v.counted AND v.sample = 0 AND v.entity IS NOT NULL
  UNION
  SELECT DISTINCT v.fact, v.entity, v.snapshot, v.start_day
  FROM verdicts($after, known_at := $known_after, judge := $judge, rule := $rule) AS v
  WHERE v.run = $run AND v.counted AND v.sample = 0 AND v.entity IS NOT NULL
),
lacking AS (
  SELECT DISTINCT n.fact
  FROM named AS n
  JOIN snapshots AS o ON o.snapshot IN ($known_before, $known_after) AND o.snapshot <> n.snapshot
  JOIN facts AS f ON f.snapshot = o.snapshot AND f.fact = n.fact AND NOT f.whole
  WHERE NOT EXISTS (FROM labels AS l WHERE l.snapshot = o.snapshot AND l.fact = n.fact AND l.entity = n.entity)
    AND NOT (o.snapshot = $known_before AND coalesce(n.start_day, 0) > o.day)  -- what began later it could not have
),
days AS (
  SELECT DISTINCT j.side, j.fact, j.snapshot, year(CAST(j.as_of AS DATE)) * 10000 + month(CAST(j.as_of AS DATE)) * 100
         + day(CAST(j.as_of AS DATE)) AS on_day
  FROM judged AS j
),
holding AS (
  SELECT d.side, d.fact,
         list({label: l.label, first: s.start_day, last: s.end_day, statement: s.statement} ORDER BY l.label) AS holders
  FROM days AS d
  JOIN standings AS s ON s.snapshot = d.snapshot AND s.fact = d.fact AND s.rule = $rule AND s.standing = 'up-to-date'
       AND s.from_day <= d.on_day AND (s.to_day IS NULL OR d.on_day < s.to_day)
  JOIN labels AS l ON l.snapshot = s.snapshot AND l.fact = s.fact AND l.entity = s.entity
  GROUP BY d.side, d.fact
)
SELECT a.fact, a.domain, a.subject, f.office,
       coalesce(c.right_answer, a.right_answer, b.right_answer, a.outdated_answer, c.outdated_answer, b.outdated_answer) AS answer,
       a.verdict AS "then", b.verdict AS "between", c.verdict AS "now", k.fact IS NOT NULL AS lacking,
       x.holders AS right_then, y.holders AS right_between, z.holders AS right_now
FROM judged AS a
JOIN judged AS b ON b.side = 'between' AND b.fact = a.fact
JOIN judged AS c ON c.side = 'now' AND c.fact = a.fact
LEFT JOIN lacking AS k ON k.fact = a.fact
LEFT JOIN holding AS x ON x.side = 'then' AND x.fact = a.fact
LEFT JOIN holding AS y ON y.side = 'between' AND y.fact = a.fact
LEFT JOIN holding AS z ON z.side = 'now' AND z.fact = a.fact
LEFT JOIN facts AS f ON f.snapshot = a.snapshot AND f.fact = a.fact
WHERE a.side = 'then'
ORDER BY a.domain, a.subject, a.fact;
