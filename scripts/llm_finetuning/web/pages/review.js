"use strict";
// Everything that a model wrote reaches the page through textContent alone: no markup of a completion is ever parsed.

const byId = (id) => document.getElementById(id);
const VERDICTS = { a: "accept", r: "reject", u: "unsure" };
const SAID = { accept: "accepted", reject: "rejected", unsure: "left unsure" };

const state = { items: [], place: 0, note: "", shown: null, matches: null, busy: false, times: [], began: 0 };

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Error("The server does not answer, so this was not saved. Start `finetune review` again and open its new address; what was saved before is kept.");
  }
  if (!answer.ok) {
    const words = await answer.text();
    throw new Error(`Not saved: ${words || answer.statusText}`);
  }
  return answer.json();
}

function say(words, failed = false) {
  byId("said").textContent = words;
  byId("said").className = failed ? "failed" : "";
}

function fill(element, parts) {
  element.replaceChildren();
  for (const part of parts) {
    if (part.kind === "reasoning") {
      const details = document.createElement("details");
      const summary = document.createElement("summary");
      summary.textContent = `reasoning, ${part.text.split(/\s+/).length} words`;
      const words = document.createElement("span");
      words.textContent = part.text;
      details.append(summary, words);
      element.append(details);
    } else if (part.kind === "text") {
      element.append(document.createTextNode(part.text));
    } else {
      const set = document.createElement(part.kind === "code" ? "code" : "span");
      if (part.kind === "math") set.className = "math";
      set.textContent = part.text;
      element.append(set);
    }
  }
}

function visible() {
  const kind = byId("filter").value;
  return state.items.map((item, place) => place).filter((place) => {
    const item = state.items[place];
    if (state.matches && !state.matches.has(place)) return false;
    if (kind === "all") return true;
    if (kind === "unread") return item.verdict === null || place === state.place;
    if (kind === "noted") return item.noted;
    return item.verdict === kind;
  });
}

function minutesLeft(unread) {
  if (state.times.length < 3) return "";
  const sorted = [...state.times].sort((a, b) => a - b);
  const minutes = Math.ceil(sorted[Math.floor(sorted.length / 2)] * unread / 60000);
  return `, about ${minutes} ${minutes === 1 ? "minute" : "minutes"} left`;
}

function showProgress() {
  const total = state.items.length;
  const unread = state.items.filter((item) => item.verdict === null).length;
  byId("progress").textContent = `${total - unread} of ${total} judged${unread ? minutesLeft(unread) : ""}`;
  byId("meter").max = total || 1;
  byId("meter").value = total - unread;
  if (unread > 0 || total === 0) byId("done").hidden = true;
  else if (byId("done").hidden) showNext();
  const places = visible();
  const narrowed = byId("filter").value !== "all" || state.matches;
  byId("found").textContent = narrowed ? `${places.length} shown` : "";
}

async function showNext() {
  byId("done").hidden = false;
  try {
    byId("command").textContent = (await ask("api/next")).next;
  } catch (error) {
    say(error.message, true);
  }
}

function showPaid(paid) {
  byId("paid-box").hidden = !paid;
  if (!paid) return;
  byId("why").textContent = paid.why ? `Chosen for reading: ${paid.why}.` : "";
  const rows = paid.values.map((value) => [value.name, value.value === null ? "abstained" : String(value.value), value.reason ?? ""]);
  rows.push(["weighted sum", paid.reward === null ? (paid.scored ? "none" : "not scored yet") : String(paid.reward), ""]);
  byId("paid").replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((words) => {
      const cell = document.createElement("td");
      cell.textContent = words;
      return cell;
    }));
    return row;
  }));
}

function show(item) {
  state.shown = item;
  byId("where").textContent = `Sample ${state.place + 1} of ${state.items.length}`;
  byId("part").hidden = !item.part; // told after the judgement, which it would sway
  byId("part").textContent = item.part === "random" ? "drawn at random" : "chosen, since errors may hide here";
  byId("part").className = "tag";
  byId("size").textContent = `${item.id}, ${item.tokens} tokens`;
  fill(byId("prompt"), item.prompt);
  byId("gold-box").hidden = item.gold === null;
  if (item.gold !== null) fill(byId("gold"), item.gold);
  fill(byId("completion"), item.completion);
  byId("cut").hidden = !item.cut;
  for (const verdict of Object.values(VERDICTS)) {
    byId(verdict).setAttribute("aria-pressed", String(item.label?.verdict === verdict));
  }
  state.note = item.label?.note ?? "";
  byId("note").value = state.note;
  byId("note-box").hidden = !state.note;
  showPaid(item.paid);
  showProgress();
}

async function go(place, words = "") {
  if (place < 0 || place >= state.items.length) return;
  try {
    const item = await ask(`api/items/${place}`);
    state.place = place;
    state.began = performance.now();
    show(item);
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
    say(words);
  } catch (error) {
    say(error.message, true);
  }
}

function step(direction) {
  const places = visible();
  const ahead = direction > 0 ? places.find((place) => place > state.place) : places.findLast((place) => place < state.place);
  if (ahead === undefined) say(direction > 0 ? "This is the last one shown." : "This is the first one shown.");
  else go(ahead);
}

async function decide(verdict) {
  if (state.busy || !state.shown) return;
  state.busy = true;
  const place = state.place;
  try {
    const item = await ask(`api/items/${place}/label`, { verdict, note: byId("note").value });
    const first = state.items[place].verdict === null;
    if (first) state.times.push(Math.min(performance.now() - state.began, 300000));
    state.items[place].verdict = verdict;
    state.items[place].noted = Boolean(item.label.note);
    const paid = item.paid.reward === null ? "" : `, the rewards paid ${Math.round(item.paid.reward * 1000) / 1000}`;
    const words = `Sample ${place + 1} ${SAID[verdict]} and saved${paid}.`;
    const following = visible().find((other) => other > place);
    if (following === undefined) {
      show(item);
      say(words);
    } else {
      await go(following, words);
    }
  } catch (error) {
    say(error.message, true);
  } finally {
    state.busy = false;
  }
}

function toggleReasoning() {
  const folds = [...document.querySelectorAll("details")];
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
}

async function search() {
  const words = byId("search").value.trim();
  try {
    state.matches = words ? new Set((await ask(`api/search?words=${encodeURIComponent(words)}`)).places) : null;
    narrow();
  } catch (error) {
    say(error.message, true);
  }
}

function narrow() {
  const places = visible();
  if (places.length && !places.includes(state.place)) go(places[0]);
  else showProgress();
}

function firstUnread() {
  const place = state.items.findIndex((item) => item.verdict === null);
  if (place < 0) say("All are judged.");
  else go(place);
}

const KEYS = {
  n: () => { byId("note-box").hidden = false; byId("note").focus(); },
  j: () => step(1), ArrowRight: () => step(1),
  k: () => step(-1), b: () => step(-1), ArrowLeft: () => step(-1),
  t: toggleReasoning,
  g: firstUnread,
  f: () => byId("filter").focus(),
  "/": () => byId("search").focus(),
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape" && field) {
    field.blur();
    byId("main").focus({ preventScroll: true });
    return;
  }
  if (field || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const verdict = VERDICTS[event.key.toLowerCase()];
  const act = verdict ? () => decide(verdict) : KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

for (const verdict of Object.values(VERDICTS)) byId(verdict).addEventListener("click", () => decide(verdict));
byId("noting").addEventListener("click", KEYS.n);
byId("back").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("filter").addEventListener("change", narrow);
byId("search").addEventListener("input", search);
byId("finder").addEventListener("submit", (event) => event.preventDefault());

(async () => {
  try {
    const overview = await ask("api/overview");
    state.items = overview.items;
    document.title = `Review: ${overview.run}`;
    byId("run").textContent = `${overview.run}, read by ${overview.reader}`;
    const unread = state.items.findIndex((item) => item.verdict === null);
    if (state.items.length) await go(Math.max(0, unread));
    else say("There is nothing to read.");
  } catch (error) {
    say(error.message, true);
  }
})();
