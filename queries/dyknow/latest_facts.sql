-- The verdict of every fact as of the day of the newest snapshot, by our matcher, under the soft constraint.
-- In:  nothing: a view. For another day, judge, rule or sample: the macro soft.
-- Out: as of soft, with the office beside.
-- E.g. SELECT run, right_answer FROM latest_facts WHERE subject = 'Poland'
CREATE OR REPLACE VIEW latest_facts AS
SELECT v.*, a.office
FROM soft((SELECT max(n.snapshot) FROM snapshots AS n)) AS v JOIN asked_facts AS a ON a.fact = v.fact;
