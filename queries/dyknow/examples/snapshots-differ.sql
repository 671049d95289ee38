-- Which verdicts on one day depend on the snapshot one believes?
-- In:  nothing. Out: one row an answer that the two snapshots judge differently as of 2023-12-18.
SELECT o.run, o.question, o.subject, o.label AS answered, o.verdict AS by_2023_12_18, n.verdict AS by_2025_11_30
FROM verdicts('2023-12-18', known_at := '2023-12-18') AS o
JOIN verdicts('2023-12-18', known_at := '2025-11-30') AS n ON n.run = o.run AND n.question = o.question AND n.sample = o.sample
WHERE n.verdict <> o.verdict
ORDER BY o.run, o.question;
