"use strict";

// Everything works without this script. With it a form is sent as soon as something changes, and only the part of the
// page that answers is replaced. Text enters the page as the server's own, escaped markup.

const live = document.getElementById("live");
let asking = null, timer = 0, polling = 0, told = 0;
// Milliseconds between two words on how far it is to who cannot see it.
const PAUSE = 5000;

/** Say something to whoever cannot see it. */
function say(text) { live.textContent = text; }

/** Put a new answer in the place of the old one; what has the focus keeps it. */
function show(text, focus) {
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("answer");
  const old = document.getElementById("answer");
  if (!fresh || !old) return location.reload();
  if (fresh.hasAttribute("data-whole")) return location.reload();
  const before = old.querySelector(".far"), far = fresh.querySelector(".far");
  if (before && far && !focus) {
    // Still at work: nothing else has changed, and a button that has the focus keeps it.
    before.textContent = far.textContent;
    if (Date.now() - told > PAUSE) { told = Date.now(); say(far.textContent); }
    return watch();
  }
  old.replaceWith(document.importNode(fresh, true));
  const now = document.getElementById("answer"), title = now.querySelector("h2");
  told = Date.now();
  say(title ? title.textContent : "");
  if (focus && title) title.focus();
  watch();
}

/** Ask the server for the part of a page that answers. */
async function ask(path, options, focus) {
  if (asking) asking.abort();
  const own = asking = new AbortController(), old = document.getElementById("answer");
  clearTimeout(polling);
  if (options.method) old.setAttribute("aria-busy", "true");
  try {
    const found = await fetch(path, { ...options, signal: own.signal, headers: { "X-Part": "1" }, redirect: "follow" });
    const text = await found.text();
    if (asking === own) show(text, focus);
  } catch (error) {
    if (error.name === "AbortError") return;
    old.removeAttribute("aria-busy");
    say("The server cannot be reached.");
    let note = old.querySelector(".lost");
    if (!note) { note = document.createElement("p"); note.className = "note bad lost"; old.prepend(note); }
    note.textContent = "The server cannot be reached. What you see may be out of date.";
  }
}

/** While the model is at work, ask how far it is. */
function watch() {
  const answer = document.getElementById("answer");
  if (answer && (answer.hasAttribute("data-working") || answer.hasAttribute("data-reasons"))) {
    polling = setTimeout(() => ask(answer.dataset.partOf, {}, false), 250);
  }
}

function body(form, button) {
  const data = new FormData(form);
  if (button && button.name) data.append(button.name, button.value);
  return new URLSearchParams(data);
}

document.addEventListener("submit", (event) => {
  const form = event.target, inPart = form.hasAttribute("data-part"), isLive = form.hasAttribute("data-live");
  if (!inPart && !isLive) return;
  const button = event.submitter;
  // Dropping all wishes empties the form itself, which is a new page.
  if (button && button.name === "reset") return;
  // A wish that gives way changes what the form says.
  if (form.action.endsWith("/lift")) return;
  event.preventDefault();
  clearTimeout(timer);
  ask(form.action, { method: "POST", body: body(form, button) }, true);
});

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-live]");
  if (!form) return;
  clearTimeout(timer);
  const typing = event.target.matches("input[type=number], input[type=text], input[type=date]");
  timer = setTimeout(() => ask(form.action, { method: "POST", body: body(form) }, false), typing ? 300 : 0);
});

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}
// On paper nothing can be unfolded; the rules belong to the answer.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details.rules:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
watch();
