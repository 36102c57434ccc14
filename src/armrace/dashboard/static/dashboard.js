// Keeps a page up to date by server-sent events, and draws its charts with uPlot.
// The server renders everything; this script replaces what has changed and nothing else.
"use strict";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const charts = new Map();

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
  if (old.nodeType !== Node.ELEMENT_NODE || old.hasAttribute("data-chart") || old.hasAttribute("data-readout")) return;
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

// --- charts ------------------------------------------------------------------------------

const dashes = [[], [8, 4], [2, 3], [8, 3, 2, 3]];
const HEIGHT = 264, LABEL_GAP = 16, CHART_REST = 400;
const waiting = new Map();

function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colourOf(place) {
  return variable(place < 0 ? "--muted" : `--line-${place % 7 + 1}`);
}

function formatted(chart, value) {
  if (value == null) return "–";
  if (chart.unit === "percent") return `${Math.round(100 * value)}%`;
  if (chart.unit === "corruption") return value >= 10 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
  return value.toFixed(Math.abs(value) < 100 ? 3 : 0);
}

function timeOf(seconds, step) {
  const [date, time] = new Date(seconds * 1000).toISOString().split("T");
  if (step < 60) return time.slice(0, 8);
  if (step < 86400 && time.slice(0, 5) !== "00:00") return time.slice(0, 5);
  return new Date(`${date}T00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

function columns(chart) {
  const found = [chart.times.map((time) => time / 1000)];
  for (const line of chart.series) {
    found.push(line.values);
    if (line.low.length) found.push(line.high, line.low);
  }
  return found;
}

function lineOptions(chart) {
  const series = [{}], bands = [];
  for (const line of chart.series) {
    const stroke = colourOf(line.colour);
    const dash = line.colour < 0 ? [] : dashes[Math.floor(line.colour / 7) % 4];
    series.push({ label: line.label, stroke, width: 2, dash, spanGaps: true, points: { show: false } });
    if (line.low.length) {
      bands.push({ series: [series.length, series.length + 1], fill: `${stroke}26` });
      const edge = { stroke: "transparent", spanGaps: true, points: { show: false } };
      series.push({ ...edge }, { ...edge });
    }
  }
  return { series, bands };
}

function drawExtras(plot, chart) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio;
  const wide = plot.width > 560;
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  const right = bbox.left + bbox.width;
  for (const level of chart.levels) {
    const y = plot.valToPos(level.value, "y", true);
    ctx.strokeStyle = ctx.fillStyle = variable("--alarm");
    ctx.lineWidth = ratio;
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(right, y); ctx.stroke();
    ctx.textAlign = wide ? "left" : "right";
    ctx.fillText(level.label, wide ? right + 8 * ratio : right, wide ? y : y - 8 * ratio);
  }
  ctx.fillStyle = variable("--muted");
  ctx.textAlign = "left";
  ctx.fillText(chart.axis, 2 * ratio, 10 * ratio);
  const texts = [];
  for (const mark of chart.marks) {
    const x = plot.valToPos(mark.time / 1000, "x", true);
    if (x < bbox.left || x > right) continue;
    ctx.beginPath();
    if (mark.series < 0) {
      ctx.strokeStyle = variable("--ink");
      ctx.lineWidth = ratio;
      ctx.setLineDash([2 * ratio, 4 * ratio]);
      ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height);
      writeBeside(ctx, mark.short, x - 6 * ratio, bbox.top + 8 * ratio, ratio, texts);
    } else {
      const values = chart.series[mark.series].values;
      const y = plot.valToPos(values[nearest(chart.times, mark.time)] ?? 0, "y", true), r = 4 * ratio;
      ctx.strokeStyle = colourOf(mark.colour);
      ctx.lineWidth = 2.5 * ratio;
      ctx.setLineDash([]);
      ctx.moveTo(x - r, y - r); ctx.lineTo(x + r, y + r); ctx.moveTo(x + r, y - r); ctx.lineTo(x - r, y + r);
      writeBeside(ctx, mark.short, x - 6 * ratio, y - 12 * ratio, ratio, texts);
    }
    ctx.stroke();
  }
  if (wide && chart.series.length > 1) drawNames(plot, chart, right + 8 * ratio, ratio);
  ctx.restore();
}

// Write what a mark says to its left, unless that would cover the text of another one.
function writeBeside(ctx, text, right, y, ratio, taken) {
  const left = right - ctx.measureText(text).width;
  if (taken.some((other) => Math.abs(other.y - y) < 13 * ratio && left < other.right && other.left < right)) return;
  taken.push({ left, right, y });
  ctx.textAlign = "right";
  ctx.fillStyle = variable("--muted");
  ctx.fillText(text, right, y);
}

function nearest(times, time) {
  let best = 0;
  times.forEach((each, place) => { if (Math.abs(each - time) < Math.abs(times[best] - time)) best = place; });
  return best;
}

function drawNames(plot, chart, x, ratio) {
  const { ctx, bbox } = plot;
  const ends = chart.series
    .map((line) => ({ line, value: line.values.findLast((value) => value != null) }))
    .filter(({ value }) => value != null)
    .map(({ line, value }) => ({ line, y: plot.valToPos(value, "y", true) }))
    .sort((a, b) => a.y - b.y);
  const gap = LABEL_GAP * ratio;
  ends.forEach((end, place) => { end.y = Math.max(end.y, place ? ends[place - 1].y + gap : bbox.top); });
  let limit = bbox.top + bbox.height;
  for (const end of ends.toReversed()) { end.y = Math.min(end.y, limit); limit = end.y - gap; }
  ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  for (const { line, y } of ends) {
    ctx.fillStyle = colourOf(line.colour);
    ctx.fillText(line.label.length > 20 ? `${line.label.slice(0, 19)}…` : line.label, x, y);
  }
}

function showReadout(name, plot) {
  const place = document.querySelector(`[data-readout="${name}"]`), chart = charts.get(name).chart;
  if (!place) return;
  const at = plot.cursor.idx;
  place.classList.toggle("on", at != null);
  if (at == null) return;
  const time = document.createElement("span");
  time.textContent = chart.times.length ? new Date(chart.times[at]).toISOString().slice(0, 16).replace("T", " ") : "";
  const values = chart.series.map((line) => {
    const span = document.createElement("span");
    span.className = line.colour < 0 ? "arm" : `arm a${line.colour % 7}`;
    span.textContent = `${line.label} ${formatted(chart, line.values.slice(0, at + 1).findLast((value) => value != null))}`;
    return span;
  });
  place.replaceChildren(time, ...values);
}

// Read the values of a chart with the arrow keys.
function moveCursor(name, event) {
  const { plot, chart } = charts.get(name) ?? {};
  const last = chart?.times.length - 1, at = plot?.cursor.idx;
  const places = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last };
  if (!plot || !(event.key in places)) return;
  event.preventDefault();
  document.querySelector(`[data-readout="${name}"]`)?.setAttribute("aria-live", "polite");
  const to = Math.min(Math.max(places[event.key], 0), last);
  plot.setCursor({ left: plot.valToPos(chart.times[to] / 1000, "x"), top: 1 });
}

for (const place of document.querySelectorAll("[data-chart]")) {
  place.addEventListener("keydown", (event) => moveCursor(place.dataset.chart, event));
}

function showChart(chart) {
  const place = document.querySelector(`[data-chart="${CSS.escape(chart.name)}"]`);
  if (!place || !chart.times.length) return;
  const known = charts.get(chart.name), shape = JSON.stringify([chart.series.map((line) => [line.label, line.low.length > 0]), chart.levels.length > 0]);
  if (known && known.shape === shape && known.place === place) {
    known.chart = chart;
    known.plot.batch(() => {
      known.plot.setData(columns(chart), false);
      known.plot.setScale("x", { min: chart.times[0] / 1000, max: chart.times.at(-1) / 1000 });
      known.plot.setScale("y", { min: chart.low, max: chart.high });
    });
    showReadout(chart.name, known.plot);
    return;
  }
  known?.plot.destroy();
  place.replaceChildren();
  place.classList.add("drawn");
  const entry = { chart, shape, place };
  charts.set(chart.name, entry);
  const width = place.clientWidth, wide = width > 560;
  const muted = variable("--muted"), line = variable("--grid");
  const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  entry.plot = new uPlot(
    {
      width, height: HEIGHT, ...lineOptions(chart),
      padding: [24, wide && (chart.series.length > 1 || chart.levels.length) ? 168 : 8, 0, 0],
      legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { time: true, range: () => [entry.chart.times[0] / 1000, Math.max(entry.chart.times.at(-1), entry.chart.times[0] + 1) / 1000] },
                y: { range: () => [entry.chart.low, entry.chart.high] } },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 70, values: (_, ticks, __, ___, step) => ticks.map((tick) => timeOf(tick, step)) },
        { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => (chart.unit === "percent" ? formatted(chart, tick) : (+tick.toPrecision(6)).toLocaleString("en"))) },
      ],
      hooks: { draw: [(plot) => drawExtras(plot, entry.chart)], setCursor: [(plot) => showReadout(chart.name, plot)] },
    },
    columns(chart), place);
  entry.plot.root.setAttribute("role", "img");
  entry.plot.root.setAttribute("aria-label", `${chart.description} Arrow keys read it out; the same figures are in the table below.`);
}

// Draw a chart now, or when it was last drawn some time ago, if changes come faster than that.
function showChartInTime(chart) {
  const known = waiting.get(chart.name);
  if (known) { known.chart = chart; return; }
  const entry = {};
  waiting.set(chart.name, entry);
  showChart(chart);
  setTimeout(() => {
    waiting.delete(chart.name);
    if (entry.chart) showChartInTime(entry.chart);
  }, CHART_REST);
}

function redraw() {
  for (const [name, { plot, chart, place }] of [...charts]) {
    plot.destroy();
    charts.delete(name);
    place.replaceChildren();
    showChart(chart);
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });

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
  message.charts.forEach(showChartInTime);
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
if (new URLSearchParams(location.search).has("seal")) {  // said once, and not after a reload
  const query = new URLSearchParams(location.search);
  for (const name of ["done", "changed", "seal"]) query.delete(name);
  history.replaceState(null, "", `${location.pathname}?${query}`);
}
