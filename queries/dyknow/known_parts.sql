-- The parts that the facts of some runs stand in: what --domain may name.
-- In:  $runs, the names of the runs; $split, what the parts are of, as part_of takes it.
-- Out: one row a part, by name.
SELECT DISTINCT part_of($split, r.domain, r.fact, s.popularity, s.region, s.stratum) AS part
FROM responses AS r
LEFT JOIN strata AS s ON s.run = r.run AND s.fact = r.fact
WHERE list_contains($runs, r.run) AND r.domain IS NOT NULL
ORDER BY 1;
