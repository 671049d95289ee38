-- The facts that runs were asked for.
-- In:  nothing: a view.
-- Out: one row a fact; how many phrasings of it were asked that count in the tables, and of how many runs.
-- E.g. FROM asked_facts WHERE domain = 'athletes'
CREATE OR REPLACE VIEW asked_facts AS
WITH named AS (
  SELECT f.fact, max(f.property) AS property, max_by(f.office, f.snapshot) AS office FROM facts AS f GROUP BY f.fact
)
SELECT r.fact, min(r.domain) AS domain, min(r.subject) AS subject, n.property, n.office,
       count(DISTINCT CASE WHEN r.counted THEN r.phrasing END) AS phrasings, count(DISTINCT r.run) AS runs
FROM responses AS r LEFT JOIN named AS n ON n.fact = r.fact
GROUP BY r.fact, n.property, n.office;
