-- Which facts does every model get wrong?
-- In:  nothing. Out: one row a fact that no run gets right in any phrasing, as of 2023-12-18.
SELECT s.fact, s.subject, a.office, count(*) AS models, count(*) FILTER (WHERE s.verdict = 'outdated') AS outdated
FROM soft('2023-12-18') AS s JOIN asked_facts AS a ON a.fact = s.fact
WHERE s.verdict IN ('up-to-date', 'outdated', 'irrelevant')
GROUP BY ALL
HAVING count(*) FILTER (WHERE s.verdict = 'up-to-date') = 0
ORDER BY outdated DESC, s.fact;
