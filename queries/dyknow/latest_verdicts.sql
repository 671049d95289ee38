-- The verdict of every response as of the day of the newest snapshot, by our matcher.
-- In:  nothing: a view. For another day, judge or rule: the macro verdicts.
-- Out: as of verdicts.
-- E.g. SELECT run, verdict, count(*) FROM latest_verdicts WHERE counted GROUP BY ALL ORDER BY ALL
CREATE OR REPLACE VIEW latest_verdicts AS
FROM verdicts((SELECT max(n.snapshot) FROM snapshots AS n));
