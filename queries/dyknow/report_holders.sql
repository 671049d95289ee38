-- What each holder of the facts that some runs were asked is, from day to day.
-- In:  $runs, $snapshots, as for report_answers; $rule, 'latest' or 'study'.
-- Out: one row a snapshot, fact, holder and stretch of days.
SELECT s.snapshot, s.fact, s.entity, l.label, s.from_day, s.to_day, s.standing, s.certain, s.start_day, s.end_day,
       s.statement
FROM standings AS s
JOIN labels AS l ON l.snapshot = s.snapshot AND l.fact = s.fact AND l.entity = s.entity
WHERE s.rule = $rule AND list_contains($snapshots, s.snapshot)
  AND s.fact IN (SELECT r.fact FROM responses AS r WHERE list_contains($runs, r.run))
ORDER BY s.snapshot, s.fact, s.entity, s.from_day;
