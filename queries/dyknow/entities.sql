-- Which entity a label names in a fact, in any snapshot.
-- In:  nothing. Out: one row a fact and label; the newest snapshot speaks where two differ.
SELECT l.fact, l.label, arg_max(l.entity, l.snapshot) AS entity
FROM labels AS l
GROUP BY l.fact, l.label
ORDER BY l.fact, l.label;
