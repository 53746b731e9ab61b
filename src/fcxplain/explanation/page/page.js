"use strict";

// Text only ever enters the page as text nodes and attributes, never as markup.

/** What stands at a place of the pool: a leaf, a list ([-1, ...places]) or an object ([shape, ...places]). */
function unpack(data, place) {
  const packed = data.pool[place];
  if (!Array.isArray(packed)) return packed;
  const parts = packed.slice(1).map((part) => unpack(data, part));
  if (packed[0] < 0) return parts;
  // Not by assignment: a feature may be called __proto__.
  return Object.fromEntries(data.shapes[packed[0]].map((key, i) => [key, parts[i]]));
}

/** Cases of one status (-1: any) whose label contains these words. */
function chosen(data, status, words) {
  const sought = words.trim().toLowerCase();
  const found = [];
  data.labels.forEach((label, i) => {
    if ((status < 0 || data.status[i] === status) && label.toLowerCase().includes(sought)) found.push(i);
  });
  return found;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const WIDE = 240, FLOOR = 58, TOP = 18, EYE = 8, RADIUS = 4.5, LETTER = 5.5, ROW = 11;

/** How many letters wide a text is, more or less. */
function letters(text) {
  return [...text].reduce((sum, sign) => sum + (sign > "\u2e7f" ? 1.8 : 1), 0);
}

/** The names of both values below their bars: in one row, or in two where they would meet. */
function names(texts, places) {
  const shown = [];
  let free = -1, row = 1;
  const order = texts.map((_, i) => i).filter((i) => texts[i] && places[i] !== null).sort((a, b) => places[a] - places[b]);
  for (const i of order) {
    const long = letters(texts[i]) * LETTER, from = Math.max(0, Math.min(WIDE - long, places[i] - long / 2));
    if (from < free) row = 2;
    free = from + long + LETTER;
    const at = from === 0 ? [0, "start"] : from === WIDE - long ? [WIDE, "end"] : [places[i], "middle"];
    shown.push({ x: at[0], y: FLOOR + row * ROW, "text-anchor": at[1], class: i ? "then" : "now", text: texts[i] });
  }
  return { shown, deep: shown.length ? row * ROW + 3 : 0 };
}

/** Past cases as bars, with a ring where the value is now and a dot where it would be. */
function histogram(spread, line) {
  const pad = RADIUS + 1, wide = (WIDE - 2 * pad) / spread.bars.length;
  const [now, then] = line.at.map((share) => (share === null ? null : pad + share * (WIDE - 2 * pad)));
  const named = names(line.names, [now, then]);
  const svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${FLOOR + 1 + named.deep}`, "aria-hidden": "true", class: "spread" });
  const gap = Math.min(2, wide / 5);
  const path = spread.bars.map((height, i) => {
    const tall = (height / 100) * (FLOOR - TOP);
    return height ? `M${(pad + i * wide + gap / 2).toFixed(1)} ${FLOOR}v${-tall.toFixed(1)}h${(wide - gap).toFixed(1)}V${FLOOR}z` : "";
  });
  svg.append(drawn("path", { d: path.join(""), class: "bars" }));
  svg.append(drawn("path", { d: `M0 ${FLOOR}H${WIDE}`, class: "floor" }));
  if (now !== null) svg.append(drawn("path", { d: `M${now} ${EYE}V${FLOOR}`, class: "stem now" }));
  if (then !== null) svg.append(drawn("path", { d: `M${then} ${EYE}V${FLOOR}`, class: "stem" }));
  // Levels without an order have no path between them.
  if (now !== null && then !== null && spread.kind !== "levels") svg.append(drawn("path", { d: `M${now} ${EYE}H${then}`, class: "way" }));
  if (now !== null) svg.append(drawn("circle", { cx: now, cy: EYE, r: RADIUS - 1, class: "ring" }));
  if (then !== null) svg.append(drawn("circle", { cx: then, cy: EYE, r: RADIUS, class: "dot" }));
  for (const { text, ...place } of named.shown) {
    const made = drawn("text", place);
    made.textContent = text;
    svg.append(made);
  }
  return svg;
}

function unseen(text) {
  return element("span", { class: "unseen" }, text);
}

function change(data, line) {
  const spread = data.spreads[line.feature];
  const what = element("div", { class: "what" },
    element("span", { class: "title" }, line.title), unseen(": from "),
    element("span", { class: "move" },
      element("span", { class: "now" }, line.now), element("span", { class: "arrow", "aria-hidden": "true" }, " → "), unseen(" to "),
      element("strong", { class: "then" }, line.then)),
    line.difference ? element("span", { class: "difference" }, unseen(", "), line.difference) : "");
  const ends = element("div", { class: "ends", "aria-hidden": "true" },
    ...spread.ends.map((end) => element("span", {}, line.names.includes(end) ? "" : end)));
  const figure = element("figure", {}, histogram(spread, line), ends, element("figcaption", {}, line.among));
  return element("li", {}, what, figure);
}

function changes(data, lines) {
  if (!lines.length) return element("p", {}, "Nothing changes.");
  return element("ul", { class: "changes" }, ...lines.map((line) => change(data, line)));
}

function fold(kind, title, body) {
  return element("details", { class: kind }, element("summary", {}, title), body);
}

/** Values that stay as they are. */
function unchanged(data, card, lines, title) {
  const moved = new Set(lines.map((line) => line.feature));
  const list = element("dl", {});
  card.values.forEach(([title, value], i) => {
    if (moved.has(i)) return;
    const name = element("dt", {}, title, data.fixed[i] ? element("small", {}, " cannot change") : "");
    list.append(element("div", {}, name, element("dd", {}, value)));
  });
  const count = list.children.length;
  return count ? fold("unchanged", title || `${count} unchanged`, list) : null;
}

function rules(verdicts) {
  if (!verdicts.length) return null;
  const broken = verdicts.filter((verdict) => !verdict.kept).length;
  const list = element("ul", {}, ...[...verdicts].sort((a, b) => a.kept - b.kept).map((verdict) =>
    element("li", { class: verdict.kept ? "kept" : "broken" },
      element("b", {}, verdict.kept ? "✓ kept" : "✕ broken"), " ", verdict.words)));
  const all = verdicts.length === 1 ? "The rule is kept" : verdicts.length === 2 ? "Both rules are kept" : `All ${verdicts.length} rules are kept`;
  const made = fold("rules", broken ? `${broken} of ${verdicts.length} rules broken` : all, list);
  made.open = broken > 0;
  return made;
}

/** The certificate, written when it is first looked at. */
function certificate(content) {
  const text = element("pre", { tabindex: "0", role: "group", "aria-label": "Certificate as JSON" });
  const made = fold("certificate", "Certificate", text);
  made.addEventListener("toggle", () => {
    if (!text.textContent) text.textContent = JSON.stringify(content, null, 2);
  });
  return made;
}

function alarm(failures) {
  if (!failures.length) return null;
  return element("div", { class: "alarm" },
    element("p", {}, element("b", { "aria-hidden": "true" }, "! "), element("strong", {}, "This option fails a check. Do not rely on it.")),
    element("ul", {}, ...failures.map((said) => element("li", {}, said))));
}

function answer(data, card, given, i) {
  const many = card.answers.length > 1;
  const made = element("section", { class: given.failures.length ? "answer failing" : "answer" },
    many ? element("h4", {}, `Option ${i + 1} of ${card.answers.length}`) : null,
    alarm(given.failures), changes(data, given.lines), element("p", { class: "says" }, given.says));
  made.append(element("div", { class: "folds" },
    unchanged(data, card, given.lines), rules(given.certificate.rules), certificate(given.certificate)));
  return made;
}

/** Why there is no option, or none that passes. */
function reasons(data, card) {
  const title = card.answers.length ? element("h4", {}, "Why there is no better option") : null;
  const made = element("section", { class: "answer" }, title, ...card.reason.map((said) => element("p", { class: "reason" }, said)));
  const stands = card.blocked;
  if (stands) {
    made.append(element("p", { class: "reason" }, stands.title),
      element(stands.either ? "ol" : "ul", { class: "blockers" }, ...stands.things.map((thing) => element("li", {}, thing))));
  }
  if (stands && card.relaxed.length) {
    made.append(element("div", { class: "relaxed" }, element("h4", {}, stands.unless), changes(data, card.relaxed),
      stands.remark ? element("p", { class: "says" }, stands.remark) : ""));
  }
  if (!card.answers.length) made.append(element("div", { class: "folds" }, unchanged(data, card, [], "The case as it is")));
  return made;
}

function badge(status) {
  return element("span", { class: `badge ${status.name}` }, element("b", { "aria-hidden": "true" }, status.sign), " ", status.says);
}

/** A bare number is hard to take for a name. */
function prefix(label) {
  return /^\d+$/.test(label) ? element("span", { class: "prefix" }, "Case ") : "";
}

function cardOf(data, i) {
  const card = unpack(data, data.cards[i]), status = data.statuses[data.status[i]];
  const head = element("div", { class: "head" },
    element("h3", { id: `row-${i}` }, prefix(data.labels[i]), data.labels[i]), badge(status),
    element("span", { class: "wanted" }, "target: ", element("b", {}, card.wanted)));
  const body = card.answers.map((given, j) => answer(data, card, given, j));
  if (card.reason.length || card.blocked) body.push(reasons(data, card));
  return element("article", { class: `card ${status.name}`, "aria-labelledby": `row-${i}` }, head, ...body);
}

function choices(data, choose) {
  const counts = data.statuses.map((_, status) => data.status.filter((s) => s === status).length);
  const all = [[-1, "all", data.status.length], ...data.statuses.map((status, i) => [i, status.says, counts[i]])];
  return all.filter(([i, , count]) => i < 0 || count).map(([i, says, count]) => {
    const input = element("input", { type: "radio", name: "status", value: i });
    input.checked = i < 0;
    input.addEventListener("change", () => choose(i));
    return element("label", {}, input, element("span", {}, `${says} `, element("small", {}, count.toLocaleString("en"))));
  });
}

function start() {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const state = { status: -1, page: 0, found: [] };
  const size = () => Number(byId("size").value);
  const pages = () => Math.max(1, Math.ceil(state.found.length / size()));

  function show() {
    const from = state.page * size(), view = state.found.slice(from, from + size());
    byId("cards").replaceChildren(...view.map((i) => cardOf(data, i)));
    const total = state.found.length.toLocaleString("en");
    const rows = view.length === 1 ? `Case ${(from + 1).toLocaleString("en")}` : `Cases ${(from + 1).toLocaleString("en")} to ${(from + view.length).toLocaleString("en")}`;
    byId("shown").textContent = view.length ? `${rows} of ${total}` : "No case matches.";
    byId("page").textContent = `Page ${(state.page + 1).toLocaleString("en")} of ${pages().toLocaleString("en")}`;
    byId("pager").hidden = pages() === 1;
    for (const id of ["first", "previous"]) byId(id).disabled = state.page === 0;
    for (const id of ["next", "last"]) byId(id).disabled = state.page === pages() - 1;
  }
  function choose() {
    state.found = chosen(data, state.status, byId("find").value);
    state.page = 0;
    show();
  }
  function turn(page) {
    state.page = page;
    show();
    byId("rows-title").focus();
  }

  byId("statuses").append(...choices(data, (status) => { state.status = status; choose(); }));
  byId("find").addEventListener("input", choose);
  byId("size").addEventListener("change", choose);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("first").addEventListener("click", () => turn(0));
  byId("previous").addEventListener("click", () => turn(state.page - 1));
  byId("next").addEventListener("click", () => turn(state.page + 1));
  byId("last").addEventListener("click", () => turn(pages() - 1));
  // On paper nothing can be unfolded; the rules belong to the option.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details.rules:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
  byId("size").parentElement.hidden = data.labels.length <= 10;
  byId("controls").hidden = byId("shown").hidden = data.labels.length < 2;
  choose();
}

if (typeof document !== "undefined") start();
