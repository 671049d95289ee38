-- The verdict of every fact under the soft constraint (Tables 1 and 4 of the study).
-- In:  as_of, known_at, judge, rule: as for verdicts; sample, the number of the sample to judge (of several answers to a
--      question the first, 0: the constraint forgives phrasings, and would forgive the more the more often one asks).
-- Out: one row a run and fact. Of its counted phrasings one up-to-date answer makes the fact up-to-date; else a missing
--      answer makes it incomplete; else one outdated answer makes it outdated; else it is irrelevant.
--      surely_up_to_date, possibly_up_to_date: for every, for some choice of days inside the spans.
-- E.g. SELECT verdict, count(*) FROM soft('2023-12-18', rule := 'study') GROUP BY verdict
CREATE OR REPLACE MACRO soft(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0) AS TABLE
SELECT v.run, v.domain, v.fact, any_value(v.subject) AS subject, any_value(v.snapshot) AS snapshot,
       CASE WHEN bool_or(v.verdict = 'not covered') THEN 'not covered'
            WHEN bool_or(v.verdict = 'up-to-date') THEN 'up-to-date'
            WHEN bool_or(v.counts_as IS NULL) THEN 'incomplete'
            WHEN bool_or(v.verdict = 'outdated') THEN 'outdated'
            ELSE 'irrelevant' END AS verdict,
       bool_or(v.verdict = 'up-to-date' AND v.certain) AS surely_up_to_date,
       min(CASE WHEN v.verdict = 'up-to-date' THEN v.label END) AS right_answer,
       min(CASE WHEN v.verdict = 'outdated' THEN v.label END) AS outdated_answer,
       bool_or(v.possible) AS possibly_up_to_date
FROM verdicts(as_of, known_at := known_at, judge := judge, rule := rule) AS v
WHERE v.counted AND v.sample = sample
GROUP BY v.run, v.domain, v.fact;
