-- Who has judged which run, other than our matcher.
-- In:  nothing. Out: one row a run and judge: how many judgments name an entity or say that there is none, how many are a
--      verdict for one day, how many leave it open; and the days of those verdicts, with commas.
SELECT j.run, j.judge, count(*) FILTER (WHERE j.named) AS named,
       count(*) FILTER (WHERE NOT j.named AND j.verdict IS NOT NULL) AS verdicts,
       count(*) FILTER (WHERE NOT j.named AND j.verdict IS NULL) AS unjudged,
       string_agg(DISTINCT CASE WHEN NOT j.named AND j.verdict IS NOT NULL THEN j.as_of END, ', ' ORDER BY
         CASE WHEN NOT j.named AND j.verdict IS NOT NULL THEN j.as_of END) AS days,
       max(j."time") AS latest
FROM judgments AS j
GROUP BY j.run, j.judge
ORDER BY j.run, j.judge;
