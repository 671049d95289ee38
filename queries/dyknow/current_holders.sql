-- Who holds what on the day of the newest snapshot, by that snapshot.
-- In:  nothing: a view.
-- Out: one row a fact and holder who is up-to-date then (rule latest). from_day is the first day of that, YYYYMMDD; certain:
--      no choice of days inside the spans would change it.
-- E.g. SELECT subject, office, label FROM current_holders WHERE property = 'P6'
CREATE OR REPLACE VIEW current_holders AS
SELECT n.snapshot, s.fact, f.subject, f.property, f.office, s.entity, l.label, s.from_day, s.certain
FROM (SELECT a.snapshot, a.day FROM snapshots AS a ORDER BY a.day DESC LIMIT 1) AS n
JOIN standings AS s ON s.snapshot = n.snapshot AND s.rule = 'latest' AND s.standing = 'up-to-date'
     AND s.from_day <= n.day AND (s.to_day IS NULL OR n.day < s.to_day)
JOIN facts AS f ON f.snapshot = s.snapshot AND f.fact = s.fact
LEFT JOIN labels AS l ON l.snapshot = s.snapshot AND l.fact = s.fact AND l.entity = s.entity;
