-- Which runs and domains sweep.sql numbers.
-- In:  nothing. Out: one row a run and domain ("all" too), in the order of their numbers.
SELECT n.run, n.domain
FROM (SELECT DISTINCT r.run, unnest([r.domain, 'all']) AS domain FROM responses AS r WHERE r.counted) AS n
ORDER BY n.run, n.domain;
