-- Where do the judges disagree?
-- In:  nothing. Out: one row an answer that our matcher and the labels that came with it judge differently.
SELECT m.run, m.question, m.verdict AS ours, p.verdict AS published, m.label AS we_read, m.text
FROM verdicts('2023-12-18') AS m
JOIN verdicts('2023-12-18', judge := 'published') AS p ON p.run = m.run AND p.question = m.question AND p.sample = m.sample
WHERE p.verdict IN ('up-to-date', 'outdated', 'irrelevant') AND coalesce(m.counts_as, m.verdict) <> p.verdict
ORDER BY m.run, m.question;
