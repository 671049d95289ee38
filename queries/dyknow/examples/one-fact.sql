-- Who held an office over the years, and which models name whom?
-- In:  nothing. Out: one row a holder of Q38/P6 (head of government of Italy) by the snapshot of 2023-12-18.
SELECT t.label, t.since, t.until, string_agg(DISTINCT r.run, ', ' ORDER BY r.run) AS named_by
FROM terms AS t LEFT JOIN readings AS r ON r.fact = t.fact AND r.entity = t.entity
WHERE t.fact = 'Q38/P6' AND t.snapshot = '2023-12-18'
GROUP BY ALL
ORDER BY t.since DESC NULLS LAST, t.label;
