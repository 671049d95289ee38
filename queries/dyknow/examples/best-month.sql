-- In which month is each model most up to date?
-- In:  nothing. Out: one row a run: the first day of that month, YYYYMMDD, and the rate as of it. dyknow timeline tells more.
SELECT t.run, arg_max(t.day, t.up_to_date) AS best_day, max(t.up_to_date) AS up_to_date
FROM timeline((SELECT list(year(m.day) * 10000 + month(m.day) * 100 + 1)
               FROM generate_series(DATE '2015-01-01', DATE '2023-12-01', INTERVAL 1 MONTH) AS m(day))) AS t
WHERE t.domain = 'all'
GROUP BY t.run
ORDER BY best_day, t.run;
