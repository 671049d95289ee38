-- What of a model's answers was outdated when it came out, and what has become outdated since, by run and domain.
-- In:  as_of, the day until which "since" goes; known_at, judge, rule: as for verdicts; sample: as for soft;
--      split: as for part_of, whose parts then stand in the column domain.
-- Out: counts, and shares in per cent of n, the facts that are covered and complete on both days. outdated_at_release:
--      outdated as of the day of release. outdated_since: up-to-date then, and outdated as of the later day. Runs whose
--      release is not known or after the day are left out.
-- E.g. SELECT run, n, outdated_at_release, outdated_since FROM since_release('2025-11-30')
CREATE OR REPLACE MACRO since_release(as_of, known_at := NULL, judge := 'match', rule := 'latest', sample := 0, split := 'domain') AS TABLE
WITH twice AS (
  SELECT a.run, part_of(split, a.domain, a.fact, t.popularity, t.region, t.stratum) AS part, a.fact,
         a.verdict AS first_verdict, b.verdict AS last_verdict
  FROM soft('release', known_at := known_at, judge := judge, rule := rule, sample := sample) AS a
  JOIN soft(as_of, known_at := known_at, judge := judge, rule := rule, sample := sample) AS b
    ON b.run = a.run AND b.fact = a.fact
  JOIN runs AS r ON r.run = a.run
  LEFT JOIN strata AS t ON t.run = a.run AND t.fact = a.fact
  WHERE r.released <= CAST(as_of AS DATE)
),
counted AS (
  SELECT t.run, coalesce(t.part, 'all') AS domain, count(*) AS n,
         count(*) FILTER (WHERE t.first_verdict = 'outdated') AS at_release,
         count(*) FILTER (WHERE t.first_verdict = 'up-to-date' AND t.last_verdict = 'outdated') AS since
  FROM twice AS t
  WHERE t.first_verdict IN ('up-to-date', 'outdated', 'irrelevant')
    AND t.last_verdict IN ('up-to-date', 'outdated', 'irrelevant')
  GROUP BY GROUPING SETS ((t.run, t.part), (t.run))
)
SELECT c.run, r.title, r.release_year, r.prefixed, r.released, c.domain, c.n,
       c.at_release AS outdated_at_release, c.since AS outdated_since,
       100.0 * c.at_release / c.n AS outdated_at_release_share, 100.0 * c.since / c.n AS outdated_since_share
FROM counted AS c JOIN runs AS r ON r.run = c.run
ORDER BY r.released, c.run, c.domain;
