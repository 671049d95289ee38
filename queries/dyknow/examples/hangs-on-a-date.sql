-- Which verdicts hang on a date that is known to the month or year only?
-- In:  nothing. Out: one row an answer as of 2023-12-18; start_day and end_day are the bounds of its statement.
SELECT v.run, v.question, v.subject, v.label, v.verdict, v.start_day, v.end_day
FROM verdicts('2023-12-18') AS v
WHERE NOT v.certain
ORDER BY v.run, v.question;
