-- Whom the answers of each run name, for the estimate of the date a model answers from.
-- In:  $known_at (may be NULL: as for spanning), $judge.
-- Out: one row a run, fact and holder, with how many answers name it.
SELECT s.run, s.domain, s.fact, s.entity, s.times
FROM said(known_at := $known_at, judge := $judge) AS s
WHERE s.kind = 'entity'
ORDER BY s.run, s.domain, s.fact, s.entity;
