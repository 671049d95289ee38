-- When each holder of each fact leads, for the estimate of the date a model answers from.
-- In:  $known_at (may be NULL: as for spanning), $rule.
-- Out: one row a fact, holder and stretch of days: leads is 1 where it is up-to-date for every choice of days inside the
--      spans, 0 where for none, and NULL where for some. Teams not asked for are left out.
SELECT s.fact, s.entity, s.from_day, s.to_day,
       CASE WHEN s.standing = 'up-to-date' AND s.certain THEN 1
            WHEN s.standing = 'up-to-date' OR (s.standing = 'outdated' AND NOT s.certain AND s.start_day IS NOT NULL) THEN NULL
            ELSE 0 END AS leads
FROM spanning(known_at := $known_at) AS b
JOIN standings AS s ON s.snapshot = b.snapshot AND s.rule = $rule
WHERE s.standing <> 'not asked'
ORDER BY s.fact, s.entity, s.from_day;
