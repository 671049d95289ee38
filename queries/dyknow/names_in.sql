-- Where the names of each fact can be read: many snapshots have the same ones.
-- In:  nothing; reads the tables that are being made.
-- Out: one row a fact and set of names, with the newest snapshot that has it.
SELECT fact, candidates_digest, max(snapshot) AS snapshot
FROM made.facts
GROUP BY fact, candidates_digest
ORDER BY snapshot, fact, candidates_digest;
