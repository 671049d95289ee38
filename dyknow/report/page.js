"use strict";
// Moves the day of the page. Verdicts are made as dyknow/report/rates.py makes them: a range join of whom a text names
// with what the graph says of that holder from day to day; a test compares both.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [MISSING, NOT_COVERED, UP, UP_OPEN, OUT, OUT_OPEN, LATER, IRRELEVANT] = [0, 1, 2, 3, 4, 5, 6, 7];
  const WORDS = ["no answer", "not covered", "up to date", "perhaps up to date", "out of date",
    "out of date, perhaps not yet", "later", "irrelevant"];
  const SIGNS = ["", "", "✓", "✓?", "×", "×?", "·", "·"];
  const CLASSES = ["", "", "u", "p", "o", "q", "i", "i"];
  const GIVEN = { "up-to-date": UP, outdated: OUT, later: LATER, irrelevant: IRRELEVANT, "not covered": NOT_COVERED };
  const CAUSES = { world: "the world changed", wikidata: "Wikidata was corrected", both: "both",
    unknown: "cannot be told: a snapshot does not cover it" };
  const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December"];
  const VERDICTS = ["up to date", "out of date", "irrelevant"];
  const NOBODY = -1, ALL = data.domains.length, RUNS = data.models.length;
  const $ = (id) => document.getElementById(id);
  const text = (place) => data.strings[place];

  // Days

  const number = (iso) => Number(iso.replaceAll("-", ""));
  const numbers = data.stops.map(number);
  const iso = (day) => {
    const year = Math.floor(day / 10000), rest = day - year * 10000;
    return `${String(year).padStart(4, "0")}-${String(Math.floor(rest / 100)).padStart(2, "0")}-${String(rest % 100).padStart(2, "0")}`;
  };
  const words = (date) => {
    const [year, month, day] = date.split("-").map(Number);
    return `${day} ${MONTHS[month - 1]} ${year}`;
  };
  const monthWords = (date) => words(date).replace(/^\d+ /, "");
  const time = (date) => {
    const [year, month, day] = date.split("-").map(Number);
    return new Date(year, month - 1, day).getTime();
  };
  const span = (start, end) => `${start === null ? "?" : iso(start)} – ${end === null ? "" : iso(end)}`;

  // Verdicts

  data.models.forEach((model) => {
    model.byFact = new Map();
    model.answers.forEach(([fact, phrasing, counted, sample, status, prompt, said, named, given]) => {
      if (!model.byFact.has(fact)) model.byFact.set(fact, []);
      model.byFact.get(fact).push({ fact, phrasing, counted, sample, status: text(status), prompt, said, named, given });
    });
  });
  const unknown = new Set(["before the first record", "not in this snapshot"]);

  function covered(place, fact, day) {
    return data.histories[place].cover[fact].some(
      ([from, to, status]) => from <= day && (to === null || day < to) && !unknown.has(text(status)));
  }

  /** Returns [code, statement, from, to] of a holder on a day. */
  function standing(place, fact, holder, day) {
    const steps = data.histories[place].holders[fact][holder][2];
    let at = -3;
    while (at + 3 < steps.length && steps[at + 3] <= day) at += 3;
    return at < 0 ? [IRRELEVANT, 0, null, null]
      : [steps[at + 1], steps[at + 2], steps[at], at + 3 < steps.length ? steps[at + 3] : null];
  }

  function verdict(answer, place, stop, isCovered) {
    if (answer.given) {
      const given = answer.given[stop];
      if (!given) return MISSING;
      const code = GIVEN[given[0]] ?? MISSING;
      return code === UP && !given[1] ? UP_OPEN : code;
    }
    if (!isCovered) return NOT_COVERED;
    if (answer.status === "refused") return IRRELEVANT;
    const named = answer.named[place];
    if (answer.status !== "ok" || !named) return MISSING;
    return named[0] === NOBODY ? IRRELEVANT : standing(place, answer.fact, named[0], numbers[stop])[0];
  }

  function soft(codes) {
    for (const code of [NOT_COVERED, UP, UP_OPEN, MISSING, OUT_OPEN, OUT]) if (codes.includes(code)) return code;
    return IRRELEVANT;
  }
  const isUp = (code) => code === UP || code === UP_OPEN;
  const isOut = (code) => code === OUT || code === OUT_OPEN;
  const kind = (code) => isUp(code) ? UP : isOut(code) ? OUT : code === LATER ? IRRELEVANT : code;

  /** Returns by run a map from fact to its answers' codes and its verdict. */
  function judge(place, stop) {
    return data.models.map((model) => {
      const found = new Map();
      for (const [fact, answers] of model.byFact) {
        const isCovered = covered(place, fact, numbers[stop]);
        const codes = answers.map((answer) => verdict(answer, place, stop, isCovered));
        const first = codes.filter((_, i) => answers[i].counted && answers[i].sample === 0);
        found.set(fact, { codes, first, verdict: first.length ? soft(first) : null });
      }
      return found;
    });
  }

  const none = () => ({ n: 0, up: 0, out: 0, irr: 0, low: 0, high: 0 });

  /** Returns the sums of Table 1 and Table 5 of a run, by domain and for all. */
  function sums(found, model) {
    const tables = [[], []].map(() => Array.from({ length: ALL + 1 }, none));
    for (const [fact, { codes, first, verdict: own }] of found) {
      for (const domain of [data.facts[fact][1], ALL]) {
        const one = tables[0][domain], five = tables[1][domain];
        if (own !== null && own !== NOT_COVERED && own !== MISSING) {
          one.n += 1; one.up += isUp(own); one.out += isOut(own); one.irr += own === IRRELEVANT; one.low += own === UP;
          one.high += first.some((code) => isUp(code) || code === OUT_OPEN);
        }
        const answers = model.byFact.get(fact);
        const rated = codes.filter((code, i) => answers[i].counted && code !== MISSING && code !== NOT_COVERED);
        if (rated.length) {
          const share = (test) => rated.filter(test).length / rated.length;
          five.n += 1; five.up += share(isUp); five.out += share(isOut); five.low += share((code) => code === UP);
          five.irr += share((code) => code === IRRELEVANT || code === LATER);
          five.high += share((code) => isUp(code) || code === OUT_OPEN);
        }
      }
    }
    return tables;
  }

  function split(found, model, place, stop) {
    let n = 0, differ = 0;
    for (const [fact, { codes }] of found) {
      const answers = model.byFact.get(fact);
      const own = answers.map((answer, i) => ({ answer, code: codes[i] })).filter((one) => one.answer.sample === 0);
      const counted = own.filter((one) => one.answer.counted);
      const relevant = (one) => isUp(one.code) || isOut(one.code);
      if (counted.length < 2 || !own.some(relevant)) continue;
      if (counted.some((one) => one.code === MISSING || one.code === NOT_COVERED)) continue;
      const said = (one) => !relevant(one) ? "" : one.answer.given ? `${one.answer.given[stop][2] ?? "unknown"}`
        : one.answer.named[place][0];
      n += 1;
      differ += new Set(counted.map(said)).size > 1;
    }
    return { n, value: n ? 100 * differ / n : null };
  }

  // Tables

  const exact = (value) => Math.round(value * 1e9) / 1e9;
  const whole = (value) => value === null || Number.isNaN(value) ? "–" : String(Math.floor(exact(value) + 0.5));
  const share = (sum, key) => sum.n ? exact(100 * sum[key] / sum.n) : null;
  const interval = (low, high) => low === null ? "" : `<small>${low}–${high}</small>`;

  function rateCells(sum, bounds, marked) {
    const shares = ["up", "out", "irr"].map((key) => share(sum, key));
    const marks = ["", "", ""];
    if (marked && (shares[1] ?? 0) > 40) marks[1] = "†";
    else if (marked && (shares[0] ?? 0) > 70) marks[0] = "‡";
    const cells = shares.map((value, i) => whole(value) + marks[i] + interval(bounds[2 * i], bounds[2 * i + 1]));
    const low = whole(share(sum, "low")), high = whole(share(sum, "high"));
    if (low !== high) cells[0] += `<small class=doubt>${low}…${high}</small>`;
    return [...cells, String(sum.n)];
  }

  function boundsOf(place, domain, table, stop, run) {
    const at = (stop * RUNS + run) * 6;
    return data.bounds[place][domain][table].slice(at, at + 6);
  }

  // All that goes into these cells are figures and our own signs.
  function fill(id, rows) {
    const lines = document.querySelectorAll(`#${id} tbody tr`);
    rows.forEach((cells, i) => lines[i].querySelectorAll("td").forEach((cell, j) => { cell.innerHTML = cells[j]; }));
  }

  function showTables(found, place, stop) {
    const all = found.map((own, run) => sums(own, data.models[run]));
    for (const [table, id] of [[0, "table1"], [1, "table5"]]) {
      fill(id, all.map((tables, run) => tables[table].flatMap(
        (sum, domain) => rateCells(sum, boundsOf(place, domain, table, stop, run), table === 0))));
    }
    fill("table2", found.map((own, run) => {
      const { n, value } = split(own, data.models[run], place, stop);
      if (value === null) return ["–", String(n)];
      const at = (stop * RUNS + run) * 2, [low, high] = data.split[place].slice(at, at + 2);
      return [`${exact(value).toFixed(1)}<small>${low}–${high}</small>`, String(n)];
    }));
    return all;
  }

  // Heat map

  const several = new Map();
  data.facts.forEach(([, , subject]) => several.set(subject, (several.get(subject) ?? 0) + 1));
  const title = (fact) => {
    const [, , subject, office] = data.facts[fact];
    return several.get(subject) > 1 ? `${subject}, ${office}` : subject;
  };
  const rows = [...document.querySelectorAll(".heat tbody tr")];
  const order = data.domains.flatMap((_, domain) => data.facts.flatMap((fact, i) => fact[1] === domain ? [i] : []));
  const grid = rows.map((row, y) => [...row.querySelectorAll("td")].map((cell, run) => {
    Object.assign(cell.dataset, { y, run });
    cell.tabIndex = y || run ? -1 : 0;
    cell.setAttribute("role", "button");
    return cell;
  }));

  function showHeat(found) {
    grid.forEach((cells, y) => cells.forEach((cell, run) => {
      const code = found[run].get(order[y])?.verdict ?? MISSING;
      cell.className = CLASSES[code];
      cell.textContent = SIGNS[code];
      cell.setAttribute("aria-label", `${data.models[run].name}, ${title(order[y])}: ${WORDS[code]}`);
    }));
  }

  const heat = document.querySelector(".heats");
  const cellOf = (event) => event.target.closest?.("td[data-run]");
  heat?.addEventListener("click", (event) => { const cell = cellOf(event); if (cell) explain(cell); });
  heat?.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); explain(cell); return; }
    const [dy, dx] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    const next = grid[Number(cell.dataset.y) + dy]?.[Number(cell.dataset.run) + dx];
    if ((dy || dx) && next) {
      event.preventDefault();
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  });

  // Why

  function element(name, content = "", attributes = {}) {
    const made = document.createElement(name);
    made.append(...(Array.isArray(content) ? content : [content]));
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  }

  function explain(cell) {
    const run = Number(cell.dataset.run), fact = order[Number(cell.dataset.y)], { stop, place } = state();
    const model = data.models[run], answers = model.byFact.get(fact) ?? [], day = numbers[stop];
    const holders = data.histories[place].holders[fact];
    const right = holders.flatMap((holder, i) => {
      const [code, statement] = standing(place, fact, i, day);
      return isUp(code) ? [`${text(holder[0])} (${span(...holder[1][statement].slice(0, 2))})`] : [];
    });
    $("why-head").textContent = `${model.name}: ${data.facts[fact][2]}, ${data.facts[fact][3]}`;
    const about = `As of ${words(data.stops[stop])}, by Wikidata as of ${data.snapshots[place].id} `
      + `(${data.snapshots[place].digest}): ${right.length ? right.join("; ") : "nobody holds it"}.`;
    const isCovered = covered(place, fact, day);
    $("why-body").replaceChildren(element("p", about),
      ...answers.map((answer) => article(model, answer, place, stop, isCovered)));
    $("why").showModal();
  }

  function article(model, answer, place, stop, isCovered) {
    const code = verdict(answer, place, stop, isCovered), named = answer.named[place];
    const prompt = model.before + text(answer.prompt) + model.after;
    const [before, after] = Array.isArray(answer.said) ? answer.said : [prompt ? null : "", answer.said];
    const quote = [];
    if (prompt) quote.push(element("i", (before ?? "") + prompt + (before === null ? "\n" : "")));
    const at = named && named[0] !== NOBODY ? after.lastIndexOf(text(named[2])) : -1;
    if (at < 0 || !text(named[2])) quote.push(after);
    else quote.push(after.slice(0, at), element("mark", text(named[2])), after.slice(at + text(named[2]).length));
    const beside = answer.counted ? "" : " (not counted)";
    const sample = answer.sample ? `, sample ${answer.sample}` : "";
    return element("article", [
      element("span", SIGNS[code], { class: `sign ${CLASSES[code]}` }),
      element("b", WORDS[code]), ` – ${text(answer.phrasing)}${sample}${beside}`,
      element("blockquote", quote), element("p", why(answer, place, stop), { class: "note" })]);
  }

  function why(answer, place, stop) {
    const named = answer.named[place];
    if (answer.given) return `Judged by ${data.judge}.`;
    if (answer.status !== "ok") return `The answer is ${answer.status}.`;
    if (!named) return "The snapshot does not have this fact.";
    if (named[0] === NOBODY) return `Names nobody: ${text(named[1])}.`;
    const [, , matched, alias, rule, score] = named, holder = data.histories[place].holders[answer.fact][named[0]];
    const [code, statement, from, to] = standing(place, answer.fact, named[0], numbers[stop]);
    const [start, end, id] = holder[1][statement] ?? [null, null, ""];
    const read = text(matched) ? `“${text(matched)}” reads as “${text(alias)}” (${text(rule)}`
      + `${score === null ? "" : `, ${score}`}): ` : "";
    return `${read}${text(holder[0])}, who held it ${span(start, end)}. ${WORDS[code][0].toUpperCase()}${WORDS[code].slice(1)}`
      + `${from === null || from < 0 ? "" : ` from ${iso(from)}`}${to === null ? "" : ` until ${iso(to)}`}. Statement ${id}.`;
  }

  // What changed

  const since = $("since");
  if (since) since.disabled = false;

  function showChanges() {
    if (!since) return;
    const { stop } = state(), first = Number(since.value);
    const [a, b] = [Math.min(first, stop), Math.max(first, stop)];
    $("until").textContent = words(data.stops[stop]);
    const [old, now] = [placeOf(a), placeOf(b)];
    const before = judge(old, a), again = old === now ? before : judge(now, a), after = judge(now, b);
    document.querySelectorAll("#changed tbody tr").forEach((row, run) => {
      const found = changes(run, [before[run], again[run], after[run]], [old, a], [now, b]);
      const stale = found.filter((one) => one.stale), fresh = found.filter((one) => one.fresh);
      const by = (cause) => found.filter((one) => one.cause === cause).length;
      const cells = [...row.querySelectorAll("td")];
      [stale.length, fresh.length, found.length - stale.length - fresh.length, by("world"), by("wikidata")]
        .forEach((count, i) => { cells[i].textContent = count; });
      const listed = [...stale, ...fresh];
      cells[5].replaceChildren(...(listed.length ? [element("details", [
        element("summary", `${stale.slice(0, 3).map((one) => title(one.fact)).join("; ") || "which"} …`),
        element("ul", listed.map((one) => element("li", one.said)))])] : []));
    });
  }

  /** Whether one snapshot holds an extract of the fact, and in it nobody of those named by the other one. */
  function lacking(fact, answers, old, now) {
    return [[old, now], [now, old]].some(([[place, stop], [other]]) => {
      const history = data.histories[other];
      if (other === place || history.whole[fact]) return false;
      const there = new Set(history.ids[fact]);
      return answers.some((answer) => {
        const named = answer.named[place];
        if (!named || named[0] === NOBODY || there.has(data.histories[place].ids[fact][named[0]])) return false;
        const holder = data.histories[place].holders[fact][named[0]];
        const [, statement, from] = standing(place, fact, named[0], numbers[stop]);
        const start = from === null ? 0 : holder[1][statement]?.[0] ?? 0;
        return !(other === old[0] && start > number(data.snapshots[other].id));
      });
    });
  }

  function began(fact, day, [place, stop]) {
    const starts = data.histories[place].holders[fact].flatMap((holder, i) => {
      const [code, statement] = standing(place, fact, i, numbers[stop]);
      return isUp(code) ? [holder[1][statement][0]] : [];
    });
    return starts.length > 0 && starts.every((start) => start !== null && start > day);
  }

  function causeOf([one, two, three], fact, answers, old, now) {
    const gone = (code) => code === MISSING || code === NOT_COVERED;
    if (gone(one) || gone(three)) return "unknown";
    if (gone(two) || lacking(fact, answers, old, now)) {
      return [kind(one), kind(three)].includes(UP) && began(fact, numbers[old[1]], now) ? "world" : "unknown";
    }
    return kind(two) === kind(one) ? "world" : kind(two) === kind(three) ? "wikidata" : "both";
  }

  function changes(run, [before, again, after], old, now) {
    const found = [];
    for (const fact of [...before.keys()].sort((a, b) => a - b)) {
      const [one, two, three] = [before, again, after].map((own) => own.get(fact).verdict);
      if (one === null || kind(one) === kind(three)) continue;
      const answers = data.models[run].byFact.get(fact), isAsked = (answer) => answer.counted && answer.sample === 0;
      const cause = causeOf([one, two, three], fact, answers.filter(isAsked), old, now);
      const own = answers.map((answer, i) => [before.get(fact).codes[i], after.get(fact).codes[i],
        label(answer, now[0], old[0]), answer]).filter(([, , , answer]) => isAsked(answer));
      const said = [UP, OUT].flatMap((wanted) => own.filter(
        ([x, y, name]) => name && (kind(x) === wanted || kind(y) === wanted)).map(([, , name]) => name))[0] ?? "";
      found.push({ fact, cause, stale: kind(one) === UP && kind(three) === OUT,
        fresh: [OUT, IRRELEVANT].includes(kind(one)) && kind(three) === UP,
        said: `${title(fact)}${said ? `: ${said}` : ""}; ${WORDS[one]}, then ${WORDS[three]} (${CAUSES[cause]})` });
    }
    return found;
  }

  function label(answer, ...places) {
    for (const place of places) {
      const named = answer.named[place];
      if (named && named[0] !== NOBODY) return text(data.histories[place].holders[answer.fact][named[0]][0]);
    }
    return "";
  }

  // Charts

  const views = new Map();
  const tip = element("div", "", { id: "tip", role: "tooltip", hidden: "" });
  document.body.append(tip);
  function hint(_handler, event, _item, value) {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    tip.textContent = String(value);
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  }

  /** Draws rows in a place of the page; drawn again, it only takes the new rows. */
  async function draw(name, place, datasets, says, lines = []) {
    if (!data.specs[name] || !place) return;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", says);
    const key = lines.join("\n");
    if (views.get(place)?.key !== key) {
      // Rows keep the order in which they were first drawn, so other rows need another chart.
      const { height } = data.specs[name], old = views.get(place);
      const spec = { ...data.specs[name], datasets, width: place.clientWidth,
        height: height.step ? lines.length * height.step : height, autosize: { type: "fit-x", contains: "padding" } };
      // The interpreter needs no eval, which the page's policy forbids.
      const options = { mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false,
        tooltip: hint, logLevel: 1 };
      const made = Promise.resolve(old?.made).then((drawn) => { drawn?.finalize(); return vegaEmbed(place, spec, options); });
      views.set(place, { key, made });
    }
    const entry = views.get(place), { view } = await entry.made;
    entry.view = view;
    Object.entries(datasets).forEach(([key, rows_]) => view.data(key, rows_));
    await view.runAsync();
  }

  function showBars(all, place, stop) {
    const domain = Number($("domain").value), bars = [], whiskers = [];
    all.forEach(([tables], run) => {
      const sum = tables[domain], [low, high] = boundsOf(place, domain, 0, stop, run), model = data.models[run].name;
      if (!sum.n) return;
      const said = `${model}: ${whole(share(sum, "up"))} % up to date (${low} to ${high}), ${whole(share(sum, "out"))} % `
        + `out of date, ${whole(share(sum, "irr"))} % irrelevant; n = ${sum.n}`;
      let from = 0;
      ["up", "out", "irr"].forEach((key, i) => {
        const to = from + share(sum, key);
        bars.push({ model, verdict: VERDICTS[i], share: to - from, from, to, said });
        from = to;
      });
      whiskers.push({ model, lower: low, upper: high, said });
    });
    draw("bars", $("chart-bars"), { bars, whiskers }, whiskers.map((one) => one.said).join(". "),
      whiskers.map((one) => one.model));
  }

  const sweeps = new Map();
  /** Returns by domain, run and stop [n, lower, up, upper] by one snapshot. */
  function sweep(place) {
    if (!sweeps.has(place)) {
      const found = Array.from({ length: ALL + 1 }, () => data.models.map(() => []));
      data.stops.forEach((_, stop) => judge(place, stop).forEach((own, run) => {
        sums(own, data.models[run])[0].forEach((sum, domain) => {
          found[domain][run].push([sum.n, share(sum, "low"), share(sum, "up"), share(sum, "high")]);
        });
      }));
      sweeps.set(place, found);
    }
    return sweeps.get(place);
  }

  const panels = $("chart-timeline");
  const frames = panels && data.specs.timeline ? data.models.map((model) => {
    const frame = element("div", [element("h3", model.name), element("p"), element("div")]);
    panels.append(frame);
    return frame;
  }) : [];

  function showTimeline() {
    const { stop } = state(), domain = Number($("domain").value), by = data.stops.map((_, i) => placeOf(i));
    const sweeps_ = new Map([...new Set(by)].map((place) => [place, sweep(place)[domain]]));
    frames.forEach((frame, run) => {
      const model = data.models[run], points = by.map((place, i) => sweeps_.get(place)[run][i]), [, about, chart] = frame.children;
      const timeline = points.flatMap(([n, lower, up, upper], i) => n ? [{ model: model.name, kind: "share", by: by[i],
        day: time(data.stops[i]), lower, up, upper, said: `${words(data.stops[i])}: ${whole(up)} % up to date` }] : []);
      let top = -1;
      points.forEach(([n, , up], i) => { if (n && (top < 0 || up > points[top][2])) top = i; });
      const said = [top < 0 ? "" : `peaks in ${top ? "" : "or before "}${monthWords(data.stops[top])} at ${whole(points[top][2])} %`];
      if (model.known) {
        const [day, earliest, latest] = model.known;
        const seems = `answers from ${monthWords(day)} (${monthWords(earliest)} to ${monthWords(latest)})`;
        timeline.push({ kind: "known", day: time(day), earliest: time(earliest), latest: time(latest), said: seems });
        said.push(seems);
      }
      if (model.released && model.released >= data.stops[0]) {
        const when = model.releasedWhen === "day" ? words(model.released) : `in ${model.released.slice(0, 4)}`;
        timeline.push({ kind: "release", day: time(model.released), said: `came out ${when}` });
        said.push(`came out ${when}`);
      }
      about.textContent = said.filter(Boolean).join("; ");
      draw("timeline", chart, { timeline, now: [{ day: time(data.stops[stop]) }] },
        `${model.name}: ${about.textContent}`);
    });
  }

  function moveTimeline() {
    const { stop } = state();
    frames.forEach((frame) => draw("timeline", frame.children[2], { now: [{ day: time(data.stops[stop]) }] },
      frame.children[2].getAttribute("aria-label")));
  }

  const day = (date) => Math.round(time(date) / 86400000);
  const shorten = (said, letters) => said.length <= letters ? said
    : letters > 3 ? `${said.slice(0, letters - 1).trimEnd()}…` : "";

  function showLanes() {
    const box = $("chart-lanes");
    if (!box || !data.specs.lanes) return;
    const { stop, place } = state(), fact = Number($("fact").value), holders = data.histories[place].holders[fact];
    const now = numbers[stop], end = data.stops[data.stops.length - 1];
    const spans = (i) => {
      const own = holders[i], asked = new Map();
      for (let at = 0; at < own[2].length; at += 3) {
        const [start, stopDay] = own[1][own[2][at + 2]];
        if (own[2][at + 1] !== IRRELEVANT) asked.set(`${start} ${stopDay}`, [start, stopDay]);
      }
      return [...asked.values()].sort(([a, b], [c, d]) => (a ?? 0) - (c ?? 0) || (b ?? 99999999) - (d ?? 99999999));
    };
    const named = data.models.map((model) => {
      const counts = new Map();
      (model.byFact.get(fact) ?? []).filter((answer) => answer.counted && answer.sample === 0).forEach((answer) => {
        const own = answer.named[place];
        if (own && own[0] !== NOBODY) counts.set(own[0], (counts.get(own[0]) ?? 0) + 1);
      });
      return [...counts].sort((a, b) => b[1] - a[1]).map(([holder]) => holder);
    });
    const starts = (list) => list.flatMap((i) => spans(i).map(([start]) => start)).filter((start) => start !== null);
    const every = starts(holders.map((_, i) => i)), last = every.length ? Math.max(...every) : 19900101;
    const least = Math.max(Math.min(...starts([...new Set(named.flat())]), last), 19900101);
    const begin = iso(Math.floor(Math.max(least - 10000, 19900101) / 10000) * 10000 + 101);
    const letters = Math.max(1, (box.clientWidth - 190) / 6.4), lanes = [], marks = [];
    const add = (holder, row, kindOf, name) => spans(holder).forEach(([start, stopDay]) => {
      const first = start === null || start < number(begin) ? begin : iso(start), to = stopDay === null ? end : iso(stopDay);
      if (to <= begin) return;
      const part = (day(to) - day(first)) / (day(end) - day(begin));
      lanes.push({ row, kind: kindOf, first: time(first), last: time(to), text: shorten(name, Math.floor(part * letters)),
        said: `${row}: ${name ? `${name}, ` : ""}${span(start, stopDay)}` });
    });
    const latest = (i) => spans(i).at(-1)?.[0] ?? 0;
    holders.map((_, i) => i).sort((a, b) => latest(a) - latest(b))
      .forEach((i) => add(i, text(holders[i][0]), "held it", ""));
    data.models.forEach((model, run) => {
      if (!model.byFact.has(fact)) return;
      named[run].forEach((holder) => {
        const code = standing(place, fact, holder, now)[0];
        add(holder, model.name, isUp(code) ? "up to date" : code === LATER ? "later" : "out of date", text(holders[holder][0]));
      });
      if (model.released && begin <= model.released && model.released <= end) {
        marks.push({ row: model.name, day: time(model.released), said: `${model.name} came out ${words(model.released)}` });
      }
    });
    draw("lanes", box, { lanes, marks, now: [{ day: time(data.stops[stop]) }] }, lanes.map((one) => one.said).join("; "),
      [...new Set([...lanes, ...marks].map((one) => one.row))]);
  }

  function showYears() {
    draw("years", $("chart-years"), { years: data.years }, data.years.map((one) => one.said).join("; "),
      data.years.map((one) => one.model));
  }

  // The slider

  const slider = $("asof");

  function placeOf(stop) {
    const chosen = $("snapshot")?.value ?? "auto";
    return chosen === "auto" ? data.places[stop] : Number(chosen);
  }
  function state() {
    const stop = Number(slider.value);
    return { stop, place: placeOf(stop) };
  }

  function show() {
    const { stop, place } = state(), said = words(data.stops[stop]);
    $("day").textContent = said;
    slider.setAttribute("aria-valuetext", said);
    $("moment").textContent = `As of ${said}, by Wikidata as of ${data.snapshots[place].id}.`;
    const found = judge(place, stop), all = showTables(found, place, stop);
    showHeat(found);
    showBars(all, place, stop);
    showChanges();
    showLanes();
  }

  function go(date) {
    let stop = data.stops.indexOf(date);
    if (stop < 0) stop = Math.max(0, data.stops.findLastIndex((one) => one <= date));
    slider.value = stop;
    show();
    moveTimeline();
  }

  function fromAddress() {
    const date = decodeURIComponent(location.hash.slice(1));
    if (/^\d{4}-\d\d-\d\d$/.test(date)) go(date);
  }

  // One redrawing a frame, however fast the slider goes.
  let waiting = false;
  slider.addEventListener("input", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; show(); moveTimeline(); });
  });
  const step = (by) => { slider.value = Number(slider.value) + by; show(); moveTimeline(); };
  $("before").addEventListener("click", () => step(-1));
  $("after").addEventListener("click", () => step(1));
  $("domain").addEventListener("change", () => { show(); showTimeline(); });
  $("snapshot")?.addEventListener("change", () => { show(); showTimeline(); });
  since?.addEventListener("change", showChanges);
  $("fact")?.addEventListener("change", showLanes);
  addEventListener("hashchange", fromAddress);
  let wide = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    resize((place) => place.clientWidth);
    showLanes();
  });
  // A page of paper is as wide as a small window, whatever the window.
  const PAPER = 660;
  function resize(width) {
    for (const [place, { view }] of views) view?.width(width(place)).run();
  }
  addEventListener("beforeprint", () => {
    document.querySelectorAll("#changed details").forEach((one) => { one.open = true; });
    resize((place) => place.classList.contains("chart") ? PAPER : PAPER / 2 - 20);
  });
  addEventListener("afterprint", () => resize((place) => place.clientWidth));

  if (data.stops.length > 1) $("controls").hidden = false;
  if ($("fact")) $("fact").value = data.telling;
  show();
  showTimeline();
  showYears();
  fromAddress();
  Promise.all([...views.values()].map(({ made }) => made))
    .then(() => { document.documentElement.dataset.ready = "yes"; });
})();
