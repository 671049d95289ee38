-- Which model is best in which domain?
-- In:  nothing. Out: one row a domain, with the run that has most facts up to date as of 2023-12-18 and its rate in per cent.
SELECT t.domain, arg_max(t.run, t.up_to_date) AS best, max(t.up_to_date) AS up_to_date, count(*) AS of_models
FROM table1('2023-12-18') AS t
GROUP BY t.domain
ORDER BY t.domain;
