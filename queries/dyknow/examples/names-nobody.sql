-- Why do answers name nobody we know?
-- In:  nothing. Out: one row a run and reason.
SELECT r.run, r.reason, count(*) AS answers, any_value(r.text ORDER BY r.question) AS for_example
FROM readings AS r
WHERE r.entity IS NULL
GROUP BY r.run, r.reason
ORDER BY r.run, answers DESC;
