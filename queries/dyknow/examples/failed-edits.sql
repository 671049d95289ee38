-- Which edits did not take?
-- In:  nothing. Out: one row an edit whose own question is not answered right afterwards, as of 2023-12-18.
SELECT e.run, e.position, e.fact, e.before, e.target, v.label AS says_now, v.verdict
FROM edits AS e JOIN verdicts('2023-12-18') AS v ON v.run = e.run AND v.question = e.edit_question AND v.sample = 0
WHERE e.operation <> 'delete' AND v.counts_as IS DISTINCT FROM 'up-to-date'
ORDER BY e.run, e.position;
