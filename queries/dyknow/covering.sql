-- Which snapshot knows most of what runs were asked: what to believe where another one knows nothing of it.
-- In:  $runs, a list of runs.
-- Out: one row, or none where no snapshot holds any of their facts: the snapshot, the newest of several, and how many.
SELECT f.snapshot, count(DISTINCT r.fact) AS facts
FROM responses AS r JOIN facts AS f ON f.fact = r.fact
WHERE list_contains(CAST($runs AS VARCHAR[]), r.run)
GROUP BY f.snapshot
ORDER BY facts DESC, f.snapshot DESC
LIMIT 1;
