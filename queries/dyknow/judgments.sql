-- What every judge other than our matcher says of each response.
-- In:  nothing. Out: one row a run, question, sample and judge.
SELECT j.run, j.question, j.sample, j.judge, j.named, j.entity, j.verdict, j.as_of, j.reason
FROM judgments AS j
ORDER BY j.run, j.question, j.sample, j.judge;
