-- In which years the terms began that answers name: the boxes of the study's Figures 2, 5 and 6, by run and domain.
-- In:  $known_at (may be NULL: as for spanning), $judge, $split (as for part_of: parts then stand in the column domain),
--      $repeat  'study': of one who held several terms the last of all, as the study's released dates have it;
--               'release': the last that had begun when the model came out (by the snapshot's day, where that is not known)
-- Out: one row a run and domain, and "all": n answers to the phrasings that count, then minimum, quartiles, maximum and
--      mean of the years. Answers that name nobody, or only a term without a known start, are in no box, nor is one who
--      came only after the release. A judge who gave starts of terms instead of names is believed.
WITH terms AS (
  SELECT DISTINCT s.fact, s.entity, s.start_day
  FROM spanning(known_at := $known_at) AS b
  JOIN standings AS s ON s.snapshot = b.snapshot AND s.rule = 'latest'
  WHERE s.start_day IS NOT NULL AND s.standing <> 'not asked'
),
judging AS (
  SELECT $judge <> 'match' AND NOT EXISTS (FROM judgments AS n WHERE n.judge = $judge AND n.named) AS gives_starts
),
bounded AS (
  SELECT r.run, CASE WHEN $repeat = 'study' OR r.released IS NULL THEN b.day
                     ELSE year(r.released) * 10000 + month(r.released) * 100 + day(r.released) END AS until
  FROM runs AS r CROSS JOIN spanning(known_at := $known_at) AS b
),
read AS (
  SELECT s.run, s.domain, s.fact, s.entity, s.times, max(t.start_day) AS start_day
  FROM said(known_at := $known_at, judge := CASE WHEN (SELECT gives_starts FROM judging) THEN 'match' ELSE $judge END) AS s
  JOIN bounded AS u ON u.run = s.run
  JOIN terms AS t ON t.fact = s.fact AND t.entity = s.entity AND t.start_day <= u.until
  WHERE s.kind = 'entity' AND NOT (SELECT gives_starts FROM judging)
  GROUP BY ALL
),
begun AS (
  SELECT r.run, r.domain, r.fact, unnest(repeat([r.start_day // 10000], r.times)) AS year FROM read AS r
  UNION ALL
  SELECT r.run, r.domain, r.fact, CAST(regexp_extract(j.start, '-?\d{4,}') AS INTEGER)
  FROM judgments AS j JOIN responses AS r ON r.run = j.run AND r.question = j.question AND r.sample = j.sample
  WHERE j.judge = $judge AND j.start IS NOT NULL AND r.counted AND (SELECT gives_starts FROM judging)
),
divided AS (
  SELECT b.run, b.year, part_of($split, b.domain, b.fact, t.popularity, t.region, t.stratum) AS part
  FROM begun AS b LEFT JOIN strata AS t ON t.run = b.run AND t.fact = b.fact
)
SELECT b.run, coalesce(b.part, 'all') AS domain, count(*) AS n, min(b.year) AS minimum, quantile_cont(b.year, 0.25) AS lower,
       quantile_cont(b.year, 0.5) AS median, quantile_cont(b.year, 0.75) AS upper, max(b.year) AS maximum, avg(b.year) AS mean
FROM divided AS b
GROUP BY GROUPING SETS ((b.run, b.part), (b.run))
ORDER BY b.run, domain;
