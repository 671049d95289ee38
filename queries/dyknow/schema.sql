-- The tables of results.duckdb, each with a comment on every column.
-- In:  nothing. Out: nothing. The one file with several statements: a schema is one thing.
-- No PRIMARY KEY: how DuckDB 2 writes one to disk, clients of version 1.0 cannot read. Keys are checked in the tests.
CREATE TABLE meta (key VARCHAR, value VARCHAR NOT NULL);
COMMENT ON TABLE meta IS 'what this file was made of; results.duckdb is a cache and is made anew when that changes';
COMMENT ON COLUMN meta.key IS 'what the value is of';
COMMENT ON COLUMN meta.value IS 'a digest or a version';

CREATE TABLE snapshots (snapshot VARCHAR, day INTEGER NOT NULL, digest VARCHAR NOT NULL);
COMMENT ON TABLE snapshots IS 'the dated copies of the graph that verdicts may rest on';
COMMENT ON COLUMN snapshots.snapshot IS 'its date, YYYY-MM-DD, which is its name';
COMMENT ON COLUMN snapshots.day IS 'its date as an integer, YYYYMMDD';
COMMENT ON COLUMN snapshots.digest IS 'SHA-256 of its statements, uncompressed';

CREATE TABLE facts (snapshot VARCHAR, fact VARCHAR, subject VARCHAR, property VARCHAR, office VARCHAR, whole BOOLEAN,
  candidates_digest VARCHAR);
COMMENT ON TABLE facts IS 'the facts of each snapshot';
COMMENT ON COLUMN facts.snapshot IS 'the snapshot';
COMMENT ON COLUMN facts.fact IS 'subject and property, e.g. Q38/P35';
COMMENT ON COLUMN facts.subject IS 'label of the subject';
COMMENT ON COLUMN facts.property IS 'the Wikidata property';
COMMENT ON COLUMN facts.office IS 'title of the office or post';
COMMENT ON COLUMN facts.whole IS 'false: the snapshot holds only an extract of the history';
COMMENT ON COLUMN facts.candidates_digest IS 'digest of the names a text may be matched to';

CREATE TABLE labels (snapshot VARCHAR, fact VARCHAR, entity VARCHAR, label VARCHAR);
COMMENT ON TABLE labels IS 'the name of each entity that holds a fact in some statement';
COMMENT ON COLUMN labels.snapshot IS 'the snapshot';
COMMENT ON COLUMN labels.fact IS 'the fact';
COMMENT ON COLUMN labels.entity IS 'Q-id, or the IRI where no id is known';
COMMENT ON COLUMN labels.label IS 'its label in the snapshot';

CREATE TABLE standings (snapshot VARCHAR, fact VARCHAR, entity VARCHAR, rule VARCHAR, from_day INTEGER, to_day INTEGER,
  standing VARCHAR, certain BOOLEAN, validity VARCHAR, superseded BOOLEAN, statement VARCHAR, start_day INTEGER, end_day INTEGER);
COMMENT ON TABLE standings IS 'what each entity is to a fact, from day to day; held to SPARQL row by row in the tests, never made by SQL';
COMMENT ON COLUMN standings.snapshot IS 'the snapshot';
COMMENT ON COLUMN standings.fact IS 'the fact';
COMMENT ON COLUMN standings.entity IS 'the holder';
COMMENT ON COLUMN standings.rule IS 'latest: the latest start among the valid ones; study: the latest start even when it has ended';
COMMENT ON COLUMN standings.from_day IS 'first day, YYYYMMDD';
COMMENT ON COLUMN standings.to_day IS 'first day no longer; NULL: for ever';
COMMENT ON COLUMN standings.standing IS 'up-to-date, outdated, later or not asked (a national team)';
COMMENT ON COLUMN standings.certain IS 'no choice of days inside the spans would change the standing';
COMMENT ON COLUMN standings.validity IS 'the statement holds for every such choice (certain), for some (possible) or none (no)';
COMMENT ON COLUMN standings.superseded IS 'still valid, but another one started later';
COMMENT ON COLUMN standings.statement IS 'the statement that speaks for the entity';
COMMENT ON COLUMN standings.start_day IS 'its earliest first day';
COMMENT ON COLUMN standings.end_day IS 'its latest end';

CREATE TABLE coverage (snapshot VARCHAR, fact VARCHAR, rule VARCHAR, from_day INTEGER, to_day INTEGER, status VARCHAR);
COMMENT ON TABLE coverage IS 'what a snapshot knows of a fact, from day to day';
COMMENT ON COLUMN coverage.snapshot IS 'the snapshot';
COMMENT ON COLUMN coverage.fact IS 'the fact';
COMMENT ON COLUMN coverage.rule IS 'latest or study';
COMMENT ON COLUMN coverage.from_day IS 'first day, YYYYMMDD';
COMMENT ON COLUMN coverage.to_day IS 'first day no longer; NULL: for ever';
COMMENT ON COLUMN coverage.status IS 'answered, vacancy, before the first record, or not in this snapshot; the last two are not covered';

CREATE TABLE runs (run VARCHAR, kind VARCHAR, title VARCHAR, release_year INTEGER, prefixed BOOLEAN, model VARCHAR,
  samples INTEGER, released DATE, release_known VARCHAR, release_source VARCHAR,
  method VARCHAR, edit_mode VARCHAR, edit_preset VARCHAR, base_run VARCHAR, edit_count INTEGER, edits_of INTEGER,
  edit_seed BIGINT);
COMMENT ON TABLE runs IS 'the journals that were read';
COMMENT ON COLUMN runs.run IS 'name of the run, its folder';
COMMENT ON COLUMN runs.kind IS 'asked, imported, or named (figures without texts)';
COMMENT ON COLUMN runs.title IS 'the model as tables print it';
COMMENT ON COLUMN runs.release_year IS 'year the model came out, where known';
COMMENT ON COLUMN runs.prefixed IS 'asked with "Answer with the name only"';
COMMENT ON COLUMN runs.model IS 'the model as it was loaded';
COMMENT ON COLUMN runs.samples IS 'how many answers each question was to get';
COMMENT ON COLUMN runs.released IS 'day the model came out; where only the year is known, its last day; NULL where neither is';
COMMENT ON COLUMN runs.release_known IS 'day or year: how exactly that is known';
COMMENT ON COLUMN runs.release_source IS 'who says so';
COMMENT ON COLUMN runs.method IS 'how the model was brought up to date (rome, memit, serac, ike, rag, ...); NULL: it was not';
COMMENT ON COLUMN runs.edit_mode IS 'variant of the method, e.g. sequential, batch, gold';
COMMENT ON COLUMN runs.edit_preset IS 'whose settings, e.g. paper';
COMMENT ON COLUMN runs.base_run IS 'the run of the same model without any edit';
COMMENT ON COLUMN runs.edit_count IS 'how many facts were edited';
COMMENT ON COLUMN runs.edits_of IS 'of how many that could have been';
COMMENT ON COLUMN runs.edit_seed IS 'seed of the order in which they were drawn; NULL: not drawn, or not known';

CREATE TABLE responses (run VARCHAR, question VARCHAR, fact VARCHAR, domain VARCHAR, subject VARCHAR, phrasing VARCHAR,
  counted BOOLEAN, sample INTEGER, prompt VARCHAR, text VARCHAR, status VARCHAR, finish_reason VARCHAR,
  raw VARCHAR, logprob DOUBLE, prompt_tokens BIGINT, tokens BIGINT, seconds DOUBLE, server VARCHAR, response_digest VARCHAR);
COMMENT ON TABLE responses IS 'what the models said: one row a question and sample';
COMMENT ON COLUMN responses.run IS 'the run';
COMMENT ON COLUMN responses.question IS 'fact and phrasing, e.g. Q38/P35#1';
COMMENT ON COLUMN responses.fact IS 'the fact asked for';
COMMENT ON COLUMN responses.domain IS 'countries, athletes or organizations';
COMMENT ON COLUMN responses.subject IS 'label of the subject';
COMMENT ON COLUMN responses.phrasing IS 'which phrasing';
COMMENT ON COLUMN responses.counted IS 'false: asked beside the three phrasings the tables rest on';
COMMENT ON COLUMN responses.sample IS 'number of the sample, from 0';
COMMENT ON COLUMN responses.prompt IS 'what the model was given';
COMMENT ON COLUMN responses.text IS 'what it said, as far as it is an answer';
COMMENT ON COLUMN responses.status IS 'ok, refused, error or unanswered';
COMMENT ON COLUMN responses.finish_reason IS 'why it stopped';
COMMENT ON COLUMN responses.raw IS 'all that it said, where text is a part of it (a reasoning model''s thoughts); else NULL';
COMMENT ON COLUMN responses.logprob IS 'natural logarithm of the probability of the answer''s tokens, where known';
COMMENT ON COLUMN responses.prompt_tokens IS 'tokens of the prompt, where known';
COMMENT ON COLUMN responses.tokens IS 'tokens of the answer, where known';
COMMENT ON COLUMN responses.seconds IS 'how long it took: its own time, or its share of its batch''s';
COMMENT ON COLUMN responses.server IS 'the server that answered';
COMMENT ON COLUMN responses.response_digest IS 'SHA-256 of prompt and text';

CREATE TABLE strata (run VARCHAR, fact VARCHAR, sitelinks INTEGER, popularity VARCHAR, region VARCHAR, stratum VARCHAR);
COMMENT ON TABLE strata IS 'what the benchmark of a run says of the popularity of its facts and of what they were drawn from; facts of which it says nothing have no row';
COMMENT ON COLUMN strata.run IS 'the run';
COMMENT ON COLUMN strata.fact IS 'the fact asked for';
COMMENT ON COLUMN strata.sitelinks IS 'on how many sites of the Wikimedia projects the subject has a page';
COMMENT ON COLUMN strata.popularity IS 'the bin of that number, e.g. 20-99';
COMMENT ON COLUMN strata.region IS 'country or citizenship of the subject';
COMMENT ON COLUMN strata.stratum IS 'the stratum it was drawn from, e.g. 20-99 / P6';

CREATE TABLE matches (response_digest VARCHAR, fact VARCHAR, candidates_digest VARCHAR, matcher_version VARCHAR, matcher_parameters VARCHAR, entity VARCHAR,
  reason VARCHAR, span_start INTEGER, span_end INTEGER, matched VARCHAR, alias VARCHAR, match_rule VARCHAR, score DOUBLE);
COMMENT ON TABLE matches IS 'which entity a text names as its answer; does not depend on a date';
COMMENT ON COLUMN matches.response_digest IS 'the response';
COMMENT ON COLUMN matches.fact IS 'the fact it answers';
COMMENT ON COLUMN matches.candidates_digest IS 'the names it was matched to';
COMMENT ON COLUMN matches.matcher_version IS 'the matcher';
COMMENT ON COLUMN matches.matcher_parameters IS 'its cut-offs for misspelt names, and the version of rapidfuzz that measures them';
COMMENT ON COLUMN matches.entity IS 'the entity; NULL: none';
COMMENT ON COLUMN matches.reason IS 'matched, or why it names none';
COMMENT ON COLUMN matches.span_start IS 'where the matched words begin in the text';
COMMENT ON COLUMN matches.span_end IS 'where they end';
COMMENT ON COLUMN matches.matched IS 'the words';
COMMENT ON COLUMN matches.alias IS 'the name they were matched to';
COMMENT ON COLUMN matches.match_rule IS 'the rule that matched';
COMMENT ON COLUMN matches.score IS 'similarity, 0 to 100';

CREATE TABLE judgments (run VARCHAR, question VARCHAR, sample INTEGER, judge VARCHAR, named BOOLEAN, entity VARCHAR,
  verdict VARCHAR, start VARCHAR, as_of VARCHAR, reason VARCHAR, note VARCHAR, "time" VARCHAR, "by" VARCHAR);
COMMENT ON TABLE judgments IS 'what other judges say of the responses, the last word of each; neither named nor a verdict: unjudged';
COMMENT ON COLUMN judgments.run IS 'the run';
COMMENT ON COLUMN judgments.question IS 'the question';
COMMENT ON COLUMN judgments.sample IS 'the sample';
COMMENT ON COLUMN judgments.judge IS 'who judged';
COMMENT ON COLUMN judgments.named IS 'the judge says whom the response names, which can be judged again for any day';
COMMENT ON COLUMN judgments.entity IS 'whom; NULL where named is true: none of the fact''s holders';
COMMENT ON COLUMN judgments.verdict IS 'up-to-date, outdated or irrelevant, from a judge who gave no more than that, for one day';
COMMENT ON COLUMN judgments.start IS 'start of the statement the judge matched';
COMMENT ON COLUMN judgments.as_of IS 'the day the verdict holds for; NULL where there is none';
COMMENT ON COLUMN judgments.reason IS 'named, none, refusal, unclear, verdict only, unparsable or error; NULL: not told';
COMMENT ON COLUMN judgments.note IS 'what the judge remarked';
COMMENT ON COLUMN judgments."time" IS 'when the judgment was recorded';
COMMENT ON COLUMN judgments."by" IS 'the person or model, where told';

CREATE TABLE likelihoods (run VARCHAR, question VARCHAR, fact VARCHAR, domain VARCHAR, subject VARCHAR, phrasing VARCHAR,
  counted BOOLEAN, entity VARCHAR, label VARCHAR, logprob DOUBLE, tokens INTEGER);
COMMENT ON TABLE likelihoods IS 'how likely a model holds each holder of a fact to be what follows a question';
COMMENT ON COLUMN likelihoods.run IS 'the run';
COMMENT ON COLUMN likelihoods.question IS 'fact and phrasing, e.g. Q38/P35#1';
COMMENT ON COLUMN likelihoods.fact IS 'the fact asked for';
COMMENT ON COLUMN likelihoods.domain IS 'countries, athletes or organizations';
COMMENT ON COLUMN likelihoods.subject IS 'label of the subject';
COMMENT ON COLUMN likelihoods.phrasing IS 'which phrasing';
COMMENT ON COLUMN likelihoods.counted IS 'false: asked beside the three phrasings the tables rest on';
COMMENT ON COLUMN likelihoods.entity IS 'the holder';
COMMENT ON COLUMN likelihoods.label IS 'its label, which was scored';
COMMENT ON COLUMN likelihoods.logprob IS 'natural logarithm of the probability of the label''s tokens after the prompt';
COMMENT ON COLUMN likelihoods.tokens IS 'tokens of the label';

CREATE TABLE edits (run VARCHAR, fact VARCHAR, domain VARCHAR, position INTEGER, operation VARCHAR, edit_question VARCHAR,
  paraphrases VARCHAR[], target VARCHAR, target_entity VARCHAR, before VARCHAR, before_entity VARCHAR);
COMMENT ON TABLE edits IS 'the facts that the model of a run was brought up to date on: one row a run and fact';
COMMENT ON COLUMN edits.run IS 'the run, whose model was edited';
COMMENT ON COLUMN edits.fact IS 'the fact';
COMMENT ON COLUMN edits.domain IS 'countries, athletes or organizations';
COMMENT ON COLUMN edits.position IS 'place among the edits, from 0';
COMMENT ON COLUMN edits.operation IS 'update, add or delete';
COMMENT ON COLUMN edits.edit_question IS 'the question that was edited';
COMMENT ON COLUMN edits.paraphrases IS 'the other questions of the fact that count';
COMMENT ON COLUMN edits.target IS 'what should be answered';
COMMENT ON COLUMN edits.target_entity IS 'the entity that is; NULL for a deletion';
COMMENT ON COLUMN edits.before IS 'whom the model named before, by label; NULL: nobody, or not known';
COMMENT ON COLUMN edits.before_entity IS 'the entity that is';
