-- How many answers each run has.
-- In:  nothing. Out: one row a run, by name.
SELECT u.run, count(r.run) AS answers
FROM runs AS u LEFT JOIN responses AS r ON r.run = u.run
GROUP BY u.run
ORDER BY u.run;
