-- What each snapshot knows of the facts that some runs were asked, from day to day.
-- In:  $runs, $snapshots, $rule: as for report_holders.
-- Out: one row a snapshot, fact and stretch of days. whole: the snapshot holds the fact's whole history.
SELECT c.snapshot, c.fact, f.whole, c.from_day, c.to_day, c.status
FROM coverage AS c
JOIN facts AS f ON f.snapshot = c.snapshot AND f.fact = c.fact
WHERE c.rule = $rule AND list_contains($snapshots, c.snapshot)
  AND c.fact IN (SELECT r.fact FROM responses AS r WHERE list_contains($runs, r.run))
ORDER BY c.snapshot, c.fact, c.from_day;
