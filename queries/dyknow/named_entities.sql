-- Whom the answers of each run name, for the estimate of the date a model answers from.
-- In:  $known_at (may be NULL: as for spanning), $judge, $split (as for part_of).
-- Out: one row a run, fact and holder, with how many answers name it; domain is the part the fact stands in.
SELECT s.run, part_of($split, s.domain, s.fact, t.popularity, t.region, t.stratum) AS domain, s.fact, s.entity, s.times
FROM said(known_at := $known_at, judge := $judge) AS s
LEFT JOIN strata AS t ON t.run = s.run AND t.fact = s.fact
WHERE s.kind = 'entity'
ORDER BY s.run, domain, s.fact, s.entity;
