-- To which facts does one model give different answers in different words?
-- In:  nothing. Out: one row a run and fact, with everybody it names.
SELECT r.run, r.subject, r.office, count(DISTINCT r.entity) AS answers,
       string_agg(DISTINCT r.label, '; ' ORDER BY r.label) AS named
FROM readings AS r
WHERE r.counted AND r.entity IS NOT NULL
GROUP BY r.run, r.fact, r.subject, r.office
HAVING count(DISTINCT r.entity) > 1
ORDER BY answers DESC, r.run, r.fact;
