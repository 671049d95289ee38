-- Who holds each office now, and how many models name them?
-- In:  nothing. Out: one row a fact and holder by the newest snapshot, the best known first.
SELECT h.subject, h.office, h.label, h.from_day, count(DISTINCT v.run) AS models
FROM current_holders AS h
JOIN asked_facts AS a ON a.fact = h.fact
LEFT JOIN latest_verdicts AS v ON v.fact = h.fact AND v.entity = h.entity
GROUP BY ALL
ORDER BY models DESC, h.subject, h.label;
