-- Takes over from the file that is replaced what texts were matched to, where text and names are asked for again.
-- In:  $version, the matcher's. Out: nothing; fills made.matches.
INSERT INTO made.matches
SELECT m.*
FROM old.matches AS m
WHERE m.matcher_version = $version
  AND EXISTS (SELECT 1 FROM made.responses AS r JOIN made.facts AS f ON f.fact = r.fact
              WHERE r.status = 'ok' AND r.response_digest = m.response_digest AND r.fact = m.fact
                AND f.candidates_digest = m.candidates_digest);
