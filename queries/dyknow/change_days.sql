-- The days on which the standing of a holder, or what is known of a fact, changes.
-- In:  $known_at (may be NULL: as for spanning), $rule, $first and $last, YYYYMMDD.
-- Out: the days after the first one and up to the last one, sorted.
SELECT DISTINCT d.day
FROM spanning(known_at := $known_at) AS b
JOIN (SELECT s.snapshot, s.rule, unnest([s.from_day, s.to_day]) AS day FROM standings AS s
      UNION ALL
      SELECT c.snapshot, c.rule, c.from_day FROM coverage AS c) AS d ON d.snapshot = b.snapshot AND d.rule = $rule
WHERE d.day > $first AND d.day <= $last
ORDER BY d.day;
