-- Which answers name somebody who came only after a day?
-- In:  nothing. Out: one row an answer; what a model of that day could not know.
SELECT v.run, v.question, v.subject, v.label, v.start_day
FROM verdicts('2022-06-30') AS v
WHERE v.verdict = 'later'
ORDER BY v.start_day, v.run, v.question;
