-- Takes over from the staged lines the responses that count: of each question and sample of a run the last that stands for
-- ever, else the last; where there is none, the line that says that one is expected.
-- In:  nothing. Out: nothing; fills made.responses, run by run in the order of their places, by question and sample.
INSERT INTO made.responses
SELECT s.* EXCLUDE (place, expected, line)
FROM memory.staged AS s
QUALIFY row_number() OVER (PARTITION BY s.place, s.question, coalesce(s.sample, 0)
                           ORDER BY s.expected, s.status IN ('ok', 'refused') DESC, s.line DESC) = 1
ORDER BY s.place, s.expected, CASE WHEN s.expected THEN s.line END, s.question, s.sample;
