-- How a model's belief is spread over up-to-date and outdated holders, by run and domain, and over all domains.
-- In:  as_of, known_at, rule: as for verdicts; split: as for part_of, whose parts then stand in the column domain.
-- Out: per cent, averaged over the counted phrasings of a fact and then over the n facts. up_to_date, outdated and later
--      are the probability mass on holders of that standing (share in beliefs); first_up_to_date and first_outdated say how
--      often the holder held likeliest has that standing.
-- E.g. SELECT run, n, up_to_date, outdated, first_up_to_date FROM mass('2023-12-18') WHERE domain = 'all'
CREATE OR REPLACE MACRO mass(as_of, known_at := NULL, rule := 'latest', split := 'domain') AS TABLE
WITH asked AS (
  SELECT b.run, b.domain, b.fact, b.question,
         coalesce(sum(b.share) FILTER (WHERE b.standing = 'up-to-date'), 0) AS up_to_date,
         coalesce(sum(b.share) FILTER (WHERE b.standing = 'outdated'), 0) AS outdated,
         coalesce(sum(b.share) FILTER (WHERE b.standing = 'later'), 0) AS later,
         count(*) FILTER (WHERE b.place = 1 AND b.standing = 'up-to-date') AS first_up_to_date,
         count(*) FILTER (WHERE b.place = 1 AND b.standing = 'outdated') AS first_outdated
  FROM beliefs(as_of, known_at := known_at, rule := rule) AS b
  WHERE b.counted
  GROUP BY b.run, b.domain, b.fact, b.question
),
averaged AS (
  SELECT a.run, a.domain, a.fact, avg(a.up_to_date) AS up_to_date, avg(a.outdated) AS outdated, avg(a.later) AS later,
         avg(a.first_up_to_date) AS first_up_to_date, avg(a.first_outdated) AS first_outdated
  FROM asked AS a
  GROUP BY a.run, a.domain, a.fact
),
divided AS (
  SELECT v.*, part_of(split, v.domain, v.fact, t.popularity, t.region, t.stratum) AS part
  FROM averaged AS v LEFT JOIN strata AS t ON t.run = v.run AND t.fact = v.fact
)
SELECT d.run, coalesce(d.part, 'all') AS domain, count(*) AS n, 100 * avg(d.up_to_date) AS up_to_date,
       100 * avg(d.outdated) AS outdated, 100 * avg(d.later) AS later, 100 * avg(d.first_up_to_date) AS first_up_to_date,
       100 * avg(d.first_outdated) AS first_outdated
FROM divided AS d
GROUP BY GROUPING SETS ((d.run, d.part), (d.run))
ORDER BY d.run, coalesce(d.part, 'all');
