-- The part of a table that a fact of a run stands in; a value, not a table.
-- In:  split ('all', 'domain', 'property', 'popularity', 'region' or 'stratum'), the fact's domain and id, and what strata says.
-- Out: the domain, property, bin of popularity, region or stratum; 'unknown' where nothing is known of it.
-- E.g. SELECT DISTINCT part_of('property', r.domain, r.fact, NULL, NULL, NULL) AS property FROM responses AS r
CREATE OR REPLACE MACRO part_of(split, domain, fact, popularity, region, stratum) AS
CASE CAST(split AS VARCHAR)
  WHEN 'all' THEN 'all'
  WHEN 'domain' THEN domain
  WHEN 'property' THEN split_part(fact, '/', -1)
  WHEN 'popularity' THEN coalesce(popularity, 'unknown')
  WHEN 'region' THEN coalesce(region, 'unknown')
  WHEN 'stratum' THEN coalesce(stratum, 'unknown')
  ELSE error('Tables are not split by ' || CAST(split AS VARCHAR) || '.')
END;
