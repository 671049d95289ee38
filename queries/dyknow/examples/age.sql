-- How old are the answers, by model?
-- In:  nothing. Out: of the outdated answers, how many years before 2023-12-18 they ceased to be right (the median), and the
--      year in which the terms of all that are named began.
SELECT v.run, count(*) FILTER (WHERE v.verdict = 'outdated') AS outdated,
       median(CASE WHEN v.verdict = 'outdated' THEN 2023 - v.from_day // 10000 END) AS years_outdated,
       median(v.start_day // 10000) AS term_began
FROM verdicts('2023-12-18') AS v
WHERE v.counted AND v.verdict IN ('up-to-date', 'outdated')
GROUP BY v.run
ORDER BY term_began DESC, v.run;
