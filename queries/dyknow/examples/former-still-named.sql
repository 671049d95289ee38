-- Which former holders do most models still name?
-- In:  nothing. Out: one row a holder, with the day from which naming them is outdated and how many runs name them.
SELECT v.subject, v.label, v.from_day AS outdated_from, count(DISTINCT v.run) AS models
FROM verdicts('2023-12-18') AS v
WHERE v.verdict = 'outdated'
GROUP BY ALL
ORDER BY models DESC, v.subject, v.label;
