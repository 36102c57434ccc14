// Keeps a page up to date by server-sent events, and reads out its charts.
// The server renders everything; this script replaces what has changed and nothing else.
"use strict";

const main = document.getElementById("main");
const connection = document.getElementById("connection");

// --- parts -------------------------------------------------------------------------------

// Change a tree into another one, in place, so that focus, scrolling and open details stay.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeName === "TD" && old.isEqualNode(fresh)) return;  // most cells of a large table
  if (old.nodeType !== Node.ELEMENT_NODE || old.hasAttribute("data-readout")) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) old.removeAttribute(name);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const before = [...old.childNodes], after = [...fresh.childNodes];
  after.forEach((node, place) => (place < before.length ? morph(before[place], node) : old.append(node)));
  before.slice(after.length).forEach((node) => node.remove());
}

function show(id, html) {
  const place = document.getElementById(id);
  if (!place) return;
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  morphChildren(place, fresh.content);
}

// --- readouts of charts -------------------------------------------------------------------

let reading = null;  // the figure that is read, and at which of its points

function drawingOf(figure) {
  return [...figure.querySelectorAll("svg.chart[data-x]")].find((each) => each.getClientRects().length);
}

function read(figure, at) {
  const place = figure.querySelector("[data-readout]"), drawing = drawingOf(figure);
  for (const each of figure.querySelectorAll(".cursor")) each.remove();
  reading = drawing && at != null ? { figure, at } : null;
  place.classList.toggle("on", reading != null);
  if (!reading) return;
  const { x, names, top, bottom } = drawing.dataset;
  drawing.insertAdjacentHTML("beforeend", `<path class="cursor" d="M${x.split(" ")[at]} ${top}V${bottom}"/>`);
  const time = document.createElement("span");
  time.textContent = names.split("|")[at];
  const values = [...drawing.querySelectorAll("[data-values]")].map((line) => {
    const span = document.createElement("span");
    span.className = `arm ${line.dataset.ink}`;
    span.textContent = `${line.dataset.label} ${line.dataset.values.split("|")[at]}`;
    return span;
  });
  place.replaceChildren(time, ...values);
}

function pointAt(drawing, event) {
  const box = drawing.getBoundingClientRect();
  const across = (event.clientX - box.left) * drawing.viewBox.baseVal.width / box.width;
  const away = drawing.dataset.x.split(" ").map((each) => Math.abs(each - across));
  return away.indexOf(Math.min(...away));
}

document.addEventListener("pointermove", (event) => {
  const drawing = event.target.closest?.("svg.chart[data-x]"), figure = drawing?.closest("figure.plot");
  if (figure?.querySelector("[data-readout]")) read(figure, pointAt(drawing, event));
  else if (reading && !reading.figure.matches(":focus")) read(reading.figure, null);
});

// Read the values of a chart with the arrow keys.
document.addEventListener("keydown", (event) => {
  const figure = event.target.closest?.("figure.plot"), drawing = figure && drawingOf(figure);
  if (!drawing || figure !== event.target || !figure.querySelector("[data-readout]")) return;
  const last = drawing.dataset.x.split(" ").length - 1, at = reading?.figure === figure ? reading.at : null;
  const places = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last };
  if (!(event.key in places)) return;
  event.preventDefault();
  figure.querySelector("[data-readout]").setAttribute("aria-live", "polite");
  read(figure, Math.min(Math.max(places[event.key], 0), last));
});

// --- the stream --------------------------------------------------------------------------

const PATIENCE = 30000, RETRY = 1000;
const FINAL = [401, 403, 404];  // refusals that stand until someone signs in or goes elsewhere

function say(words, lost) {
  connection.hidden = false;
  connection.classList.toggle("lost", lost);
  if (connection.textContent !== words) connection.textContent = words;
}

function apply(message) {
  for (const [name, html] of Object.entries(message.parts)) show(`part-${name}`, html);
  for (const [id, html] of Object.entries(message.pieces)) show(id, html);
  if (reading) read(reading.figure, reading.at);  // of the drawing that has taken its place
}

// Follow a stream for as long as the tab is seen; return nothing, and go on by itself.
function follow(address) {
  const stream = new EventSource(address);
  let last = Date.now();
  const watch = setInterval(() => { if (Date.now() - last > PATIENCE) again(); }, 5000);
  const hide = () => { if (document.hidden) { end(); whenSeen(() => follow(address)); } };
  const end = () => { clearInterval(watch); stream.close(); document.removeEventListener("visibilitychange", hide); };
  const again = () => {
    end();
    say("reconnecting", true);
    setTimeout(() => whenSeen(() => follow(address)), RETRY);
  };
  const heard = () => { last = Date.now(); say("live", false); };
  document.addEventListener("visibilitychange", hide);
  stream.addEventListener("open", heard);
  stream.addEventListener("beat", heard);
  stream.addEventListener("change", (event) => { heard(); apply(JSON.parse(event.data)); });
  stream.addEventListener("trouble", () => { last = Date.now(); say("waiting for the server", true); });
  stream.addEventListener("over", () => { end(); location.reload(); });
  stream.addEventListener("error", async () => {
    say("reconnecting", true);
    if (stream.readyState !== EventSource.CLOSED) return;  // the browser tries again by itself
    end();
    if (FINAL.includes(await statusOf(address))) location.reload();  // to the page for signing in
    else again();
  });
}

function whenSeen(act) {
  if (document.hidden) document.addEventListener("visibilitychange", () => whenSeen(act), { once: true });
  else act();
}

async function statusOf(address) {
  try {
    const answer = await fetch(address, { redirect: "manual" });
    answer.body?.cancel();
    return answer.type === "opaqueredirect" ? 303 : answer.status;
  } catch {
    return 0;
  }
}

// Open a page that could not be shown again, once it can be.
function wait() {
  setTimeout(async () => {
    const status = await statusOf(location.href);
    if (status > 0 && status < 500) location.reload();
    else wait();
  }, 3 * RETRY);
}

if (main?.dataset.stream) follow(main.dataset.stream);
if (main && "waits" in main.dataset) wait();
if (document.querySelector("[data-again]")) setTimeout(() => location.reload(), 2 * RETRY);
if (new URLSearchParams(location.search).has("seal")) {  // said once, and not after a reload
  const query = new URLSearchParams(location.search);
  for (const name of ["done", "changed", "seal"]) query.delete(name);
  history.replaceState(null, "", `${location.pathname}?${query}`);
}
