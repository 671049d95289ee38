-- The verdict of every response as of the day its model came out, by our matcher.
-- In:  nothing: a view. Runs of which neither day nor year of release is known are left out.
-- Out: as of verdicts; on_date is the day.
-- E.g. SELECT run, question, label FROM release_verdicts WHERE verdict = 'outdated'
CREATE OR REPLACE VIEW release_verdicts AS
FROM verdicts('release');
