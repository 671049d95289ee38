-- Which answers changed verdict between two dates?
-- In:  nothing. Out: one row an answer; compare shows which of them the world changed and which Wikidata.
SELECT b.run, b.question, b.subject, b.label AS answered, b.verdict AS on_2023_12_12, a.verdict AS on_2023_12_18
FROM verdicts('2023-12-12') AS b
JOIN verdicts('2023-12-18') AS a ON a.run = b.run AND a.question = b.question AND a.sample = b.sample
WHERE a.verdict <> b.verdict
ORDER BY b.run, b.question;
