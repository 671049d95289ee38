-- The facts that runs without texts speak of, by each set of names that some snapshot has for them.
-- In:  nothing; reads the tables that are being made.
-- Out: one row a fact and set of names.
SELECT DISTINCT f.fact, f.candidates_digest
FROM made.facts AS f
JOIN made.responses AS r ON r.fact = f.fact
JOIN made.runs AS u ON u.run = r.run
WHERE u.kind = 'named'
ORDER BY f.fact, f.candidates_digest;
