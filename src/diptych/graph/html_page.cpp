// The page that html() fills in: style, frame and script. It loads nothing, so it works from a file or an email.
#include "diptych/graph/html.h"

namespace diptych::detail {

const char* const kHtmlPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{title}}</title>
<style>
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --panel: #ffffff; --ink: #1b1f26; --quiet: #5d6674; --rule: #d6dae1; --edge: #a9b2bf;
  --node: #ffffff; --input: #e6f0ff; --output: #e3f6e8; --constant: #eceef1; --residual: #fff1d6;
  --border: #b8c0cc; --operand: #1769d2; --user: #c2570c; --hit: #b4008f;
}
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) {
  --page: #14171c; --panel: #1c2027; --ink: #e6e9ee; --quiet: #98a2b1; --rule: #343b46; --edge: #4d5766;
  --node: #22272f; --input: #1b2d47; --output: #19351f; --constant: #2a2f37; --residual: #42321a;
  --border: #48515f; --operand: #6cacff; --user: #ff9d5c; --hit: #ff7ae0;
} }
:root[data-theme=dark] {
  color-scheme: dark;
  --page: #14171c; --panel: #1c2027; --ink: #e6e9ee; --quiet: #98a2b1; --rule: #343b46; --edge: #4d5766;
  --node: #22272f; --input: #1b2d47; --output: #19351f; --constant: #2a2f37; --residual: #42321a;
  --border: #48515f; --operand: #6cacff; --user: #ff9d5c; --hit: #ff7ae0;
}
:root[data-theme=light] { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; height: 100vh; display: flex; flex-direction: column; background: var(--page); color: var(--ink);
  font: 14px/1.4 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; padding: 8px 14px; background: var(--panel);
  border-bottom: 1px solid var(--rule); }
h1 { font-size: 16px; margin: 0; }
header .sum { color: var(--quiet); margin-right: auto; }
input[type=search] { width: 260px; padding: 5px 8px; border: 1px solid var(--border); border-radius: 6px;
  background: var(--page); color: var(--ink); font: inherit; }
button { padding: 4px 10px; border: 1px solid var(--border); border-radius: 6px; background: var(--page);
  color: var(--ink); font: inherit; cursor: pointer; }
button:hover { border-color: var(--ink); }
label { color: var(--quiet); user-select: none; }
#count { min-width: 84px; color: var(--quiet); }
main { flex: 1; display: flex; min-height: 0; }
#view { flex: 1; min-width: 0; cursor: grab; touch-action: none; display: block; }
#view.drag { cursor: grabbing; }
aside { width: 380px; padding: 14px; overflow: auto; background: var(--panel); border-left: 1px solid var(--rule); }
aside:empty { display: none; }
aside h2 { font-size: 15px; margin: 0 0 8px; overflow-wrap: anywhere; }
aside pre { margin: 0 0 12px; padding: 8px; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--page);
  border: 1px solid var(--rule); border-radius: 6px; font: 12px/1.45 ui-monospace, monospace; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 3px 12px; margin: 0 0 12px; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
aside h3 { font-size: 13px; margin: 12px 0 4px; } h3.operand { color: var(--operand); } h3.user { color: var(--user); }
aside a { display: block; padding: 2px 0; color: inherit; cursor: pointer; overflow-wrap: anywhere; }
aside a:hover { text-decoration: underline; } aside a small { color: var(--quiet); }
svg text { font-family: ui-monospace, monospace; fill: var(--ink); pointer-events: none; }
.title { font-size: 12.5px; font-weight: 600; } .sub { font-size: 10.5px; fill: var(--quiet); }
.heading { font: 600 22px system-ui, sans-serif; }
.box { cursor: pointer; } .box rect.body { fill: var(--node); stroke: var(--border); stroke-width: 1.2; }
.box.input rect.body { fill: var(--input); } .box.output rect.body { fill: var(--output); }
.box.constant rect.body { fill: var(--constant); } .box.residual rect.body { fill: var(--residual); }
.inner rect { fill: var(--panel); stroke: var(--border); stroke-width: .8; } .inner text { font-size: 10.5px; }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.3; }
.edge.link { stroke-dasharray: 5 4; }
.far .box text { display: none; } .far .box rect.body { vector-effect: non-scaling-stroke; }
#map { width: 96px; cursor: pointer; background: var(--panel); border-right: 1px solid var(--rule); touch-action: none; }
.box.hit rect.body { stroke: var(--hit); stroke-width: 3; }
svg.searching .box:not(.hit) { opacity: .22; } svg.searching .edge { opacity: .3; }
svg.only.searching .box:not(.hit):not(.selected):not(.operand):not(.user) { display: none; }
svg.picked .edge { opacity: .35; }
svg .edge.operand { stroke: var(--operand); stroke-width: 2.6; opacity: 1; }
svg .edge.user { stroke: var(--user); stroke-width: 2.6; opacity: 1; }
svg .box.operand, svg .box.user, svg .box.selected { opacity: 1 !important; }
.box.operand rect.body { stroke: var(--operand); stroke-width: 2.6; }
.box.user rect.body { stroke: var(--user); stroke-width: 2.6; }
.box.selected rect.body { stroke: var(--ink); stroke-width: 3.2; }
</style>
</head>
<body>
<header>
  <h1 id="name"></h1><span class="sum" id="sum"></span>
  <input type="search" id="search" placeholder="Search name, type, scope, %12  ( / )" aria-label="Search nodes">
  <span id="count"></span>
  <label><input type="checkbox" id="only"> only matches</label>
  <button id="zoomin" title="Zoom in (+)">+</button><button id="zoomout" title="Zoom out (-)">&minus;</button>
  <button id="fit" title="Show everything (f)">Fit</button><button id="top" title="Back to the top (t)">Top</button>
  <button id="theme" title="Light or dark">Theme</button>
</header>
<main><canvas id="map" aria-label="Overview; click to go there"></canvas><svg id="view" role="img" aria-label="The graph; its text is in the panel of a selected node"><g id="world"></g></svg><aside id="details"></aside></main>
<script type="application/json" id="data">{{data}}</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const boxes = data.boxes, isPair = data.panels.length === 3;
const W = 190, H = 38, GAP_X = 18, ROW = 66, LINK = 44, LINE = 19;
const $ = id => document.getElementById(id), view = $("view"), world = $("world");
const escapeHtml = s => String(s).replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}[c]));
const short = (s, n) => s.length > n ? s.slice(0, n - 1) + "…" : s;
const shortPath = (s, n) => s.length > n ? "…" + s.slice(s.length - n + 1) : s;
const bytes = n => { const u = ["B", "KiB", "MiB", "GiB", "TiB"]; let i = 0; while (n >= 1024 && i < 4) { n /= 1024; i++; } return (i ? n.toFixed(1) : n) + " " + u[i]; };

// Edges: from the box that makes a value to each box that uses it.
const maker = new Map(), edges = [];
boxes.forEach((b, i) => { b.i = i; b.in = []; b.out = []; b.h = H + (b.g ? b.g.length * LINE + 5 : 0); b.m.forEach(v => maker.set(v, b)); });
boxes.forEach(b => new Set(b.u).forEach(v => {
  const from = maker.get(v);
  if (!from) return;
  const e = {from, to: b, i: edges.length};
  edges.push(e); from.out.push(e); b.in.push(e);
}));

// Layers: as late as the first user allows, so that a parameter stands by its use and not at the top.
function rank(list) {
  const mine = new Set(list);
  for (const b of list) b.rank = Math.max(0, ...b.in.filter(e => mine.has(e.from)).map(e => e.from.rank + 1));
  for (let i = list.length; i-- > 0;) {
    const users = list[i].out.filter(e => mine.has(e.to)).map(e => e.to.rank - 1);
    if (users.length) list[i].rank = Math.max(list[i].rank, Math.min(...users));
  }
  return Math.max(0, ...list.map(b => b.rank));
}

// Each row is sorted by where its operands stand, and put as near to them as the boxes' width allows.
function place(list) {
  const last = rank(list), rows = Array.from({length: last + 1}, () => []), mine = new Set(list);
  list.forEach(b => rows[b.rank].push(b));
  const settle = (row, neighbours) => {
    row.forEach((b, i) => {
      const xs = neighbours(b).map(o => o.x);
      b.want = xs.length ? xs.reduce((s, x) => s + x, 0) / xs.length : b.x;
    });
    row.sort((a, b) => a.want - b.want || a.i - b.i);
    let shift = 0, x = -Infinity;
    for (const b of row) { x = b.x = Math.max(b.want, x + W + GAP_X); shift += b.want - b.x; }
    for (const b of row) b.x += shift / row.length;
  };
  const before = b => b.in.filter(e => mine.has(e.from)).map(e => e.from);
  const after = b => b.out.filter(e => mine.has(e.to)).map(e => e.to);
  rows.forEach(row => row.forEach((b, i) => { b.x = (i - (row.length - 1) / 2) * (W + GAP_X); }));
  for (let pass = 0; pass < 3; pass++) {
    rows.forEach(row => settle(row, before));
    for (let r = last; r-- > 0;) settle(rows[r], b => { const users = after(b); return users.length ? users : before(b); });
  }
  const left = Math.min(0, ...list.map(b => b.x)), right = Math.max(0, ...list.map(b => b.x)) + W;
  return {left, width: right - left, last};
}

const panels = [0, 1, 2].map(p => boxes.filter(b => b.p === p));
const forward = place(panels[0]);
panels[0].forEach(b => { b.x -= forward.left; });
// By row, how much taller the rows before it are than plain boxes; at the end that of all.
function extra(list, last) {
  const taller = new Array(last + 2).fill(0);
  for (const b of list) taller[b.rank + 1] = Math.max(taller[b.rank + 1], b.h - H);
  for (let r = 1; r < taller.length; r++) taller[r] += taller[r - 1];
  return taller;
}
// The shorter graph is stretched, so that a residual stands near both of its ends.
function stretch(list, last, height, flip) {
  const more = extra(list, last), free = height - H - more[last + 1];
  const pitch = Math.min(3 * ROW, Math.max(ROW, last ? free / last : ROW));
  list.forEach(b => { const y = b.rank * pitch + more[b.rank]; b.y = flip ? height - b.h - y : y; });
}
let headings = [[forward.width / 2, data.panels[0]]], height = forward.last * ROW + H + extra(panels[0], forward.last)[forward.last + 1];
if (isPair) {
  const backward = place(panels[2]), middle = forward.width + 150, right = middle + W + 150;
  height = Math.max(height, backward.last * ROW + H + extra(panels[2], backward.last)[backward.last + 1], panels[1].length * LINK);
  stretch(panels[2], backward.last, height, true);
  panels[2].forEach(b => { b.x += right - backward.left; });
}
stretch(panels[0], forward.last, height, false);
if (isPair) {
  const middle = forward.width + 150;
  const ends = b => b.in.map(e => e.from.y).concat(b.out.map(e => e.to.y));
  panels[1].forEach(b => { const ys = ends(b); b.x = middle; b.y = ys.length ? ys.reduce((s, y) => s + y, 0) / ys.length : 0; });
  panels[1].sort((a, b) => a.y - b.y || a.i - b.i);
  let y = -LINK;
  for (const b of panels[1]) { y = b.y = Math.max(b.y, y + LINK); }
  const overflow = Math.max(0, y + H - height);
  for (let i = panels[1].length, limit = Infinity; i-- > 0 && overflow;) {
    panels[1][i].y = Math.min(panels[1][i].y - overflow, limit - LINK);
    limit = panels[1][i].y = Math.max(panels[1][i].y, i * LINK);
  }
  const xs = panels[2].map(b => b.x);
  headings.push([middle + W / 2, data.panels[1]], [xs.length ? (Math.min(...xs) + Math.max(...xs) + W) / 2 : middle + 2 * W, data.panels[2]]);
}

const hue = s => { let h = 7; for (const c of s) h = (h * 31 + c.charCodeAt(0)) % 360; return h; };
function curve(e) {
  const a = e.from, b = e.to;
  if (a.p !== b.p) {
    const x1 = a.x + W, y1 = a.y + H / 2, x2 = b.x, y2 = b.y + H / 2, c = Math.max(50, (x2 - x1) / 2);
    return `M${x1} ${y1}C${x1 + c} ${y1} ${x2 - c} ${y2} ${x2} ${y2}`;
  }
  const up = a.p === 2, x1 = a.x + W / 2, y1 = up ? a.y : a.y + a.h, x2 = b.x + W / 2, y2 = up ? b.y + b.h : b.y;
  const c = Math.max(14, Math.min(60, Math.abs(y2 - y1) / 2)) * (up ? -1 : 1);
  return `M${x1.toFixed(1)} ${y1.toFixed(1)}C${x1.toFixed(1)} ${(y1 + c).toFixed(1)} ${x2.toFixed(1)} ${(y2 - c).toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
}
world.innerHTML =
  headings.map(([x, t]) => `<text class="heading" x="${x}" y="-34" text-anchor="middle">${escapeHtml(t)}</text>`).join("") +
  edges.map(e => `<path class="edge${e.from.p !== e.to.p ? " link" : ""}" id="e${e.i}" d="${curve(e)}"/>`).join("") +
  boxes.map(b => {
    const sub = b.k === "residual" ? `${bytes(b.b)} · ${b.s}` : b.s;
    const strip = b.sc ? `<rect x="0" y="0" width="5" height="${H}" rx="2" fill="hsl(${hue(b.sc)} 60% 52%)"/>` : "";
    const radius = b.k === "node" ? 5 : 18;
    const inner = (b.g || []).map(([name, type], i) => `<g class="inner" transform="translate(6 ${H + i * LINE})"><rect width="${W - 12}" height="${LINE - 3}" rx="3"/>` +
      `<text x="6" y="12">${escapeHtml(short(name, 16))}</text><text x="${W - 18}" y="12" text-anchor="end">${escapeHtml(short(type, 14))}</text></g>`).join("");
    return `<g class="box ${b.k}" id="b${b.i}" data-i="${b.i}" transform="translate(${b.x.toFixed(1)} ${b.y.toFixed(1)})">` +
      `<rect class="body" width="${W}" height="${b.h}" rx="${radius}"/>${strip}${inner}` +
      `<text class="title" x="${W / 2}" y="16" text-anchor="middle">${escapeHtml(b.k === "node" ? short(b.t, 23) : shortPath(b.t, 23))}</text>` +
      `<text class="sub" x="${W / 2}" y="30" text-anchor="middle">${escapeHtml(short(sub, 28))}</text></g>`;
  }).join("");

// Pan and zoom.
let hits = [];
const bounds = world.getBBox(), camera = {x: 0, y: 0, k: 1};
function apply() {
  world.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.k})`);
  world.classList.toggle("far", camera.k < 0.28);
  overview();
}
// The whole page squeezed into a strip: a graph of a thousand nodes is far taller than wide.
const map = $("map");
function overview() {
  const w = map.clientWidth, h = map.clientHeight, css = getComputedStyle(document.documentElement), r = view.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1, pen = map.getContext("2d"), colour = name => css.getPropertyValue("--" + name);
  map.width = w * scale; map.height = h * scale;
  pen.scale(scale, scale);
  const fx = (w - 8) / bounds.width, fy = (h - 8) / bounds.height;
  const bar = b => pen.fillRect(4 + (b.x - bounds.x) * fx, 4 + (b.y - bounds.y) * fy, Math.max(2, W * fx), Math.max(1, b.h * fy * 0.8));
  for (const [kind, name] of [["node", "edge"], ["constant", "edge"], ["input", "operand"], ["output", "operand"], ["residual", "user"]]) {
    pen.fillStyle = colour(name);
    boxes.forEach(b => { if (b.k === kind) bar(b); });
  }
  pen.fillStyle = colour("hit");
  hits.forEach(bar);
  pen.strokeStyle = colour("ink");
  const x = 4 + (-camera.x / camera.k - bounds.x) * fx, y = 4 + (-camera.y / camera.k - bounds.y) * fy;
  pen.strokeRect(Math.max(1, x), y, Math.min(w - 2, r.width / camera.k * fx), Math.max(3, r.height / camera.k * fy));
}
function jump(e) {
  if (!(e.buttons & 1)) return;
  const m = map.getBoundingClientRect(), r = view.getBoundingClientRect();
  const wx = bounds.x + (e.clientX - m.left - 4) / (m.width - 8) * bounds.width, wy = bounds.y + (e.clientY - m.top - 4) / (m.height - 8) * bounds.height;
  if (bounds.width * camera.k > r.width) camera.x = r.width / 2 - wx * camera.k;
  camera.y = r.height / 2 - wy * camera.k;
  apply();
}
map.addEventListener("pointerdown", jump); map.addEventListener("pointermove", jump);
window.addEventListener("resize", overview);
function zoom(factor, cx, cy) {
  const k = Math.min(4, Math.max(0.01, camera.k * factor)), f = k / camera.k;
  camera.x = cx - (cx - camera.x) * f; camera.y = cy - (cy - camera.y) * f; camera.k = k;
  apply();
}
function fit() {
  const r = view.getBoundingClientRect();
  camera.k = Math.min(r.width / (bounds.width + 60), r.height / (bounds.height + 60), 1.4);
  camera.x = (r.width - bounds.width * camera.k) / 2 - bounds.x * camera.k;
  camera.y = (r.height - bounds.height * camera.k) / 2 - bounds.y * camera.k;
  apply();
}
function top_() {
  const r = view.getBoundingClientRect();
  camera.k = Math.min(1.2, Math.max(0.3, r.width / (bounds.width + 60)));
  camera.x = (r.width - bounds.width * camera.k) / 2 - bounds.x * camera.k;
  if (bounds.width * camera.k > r.width) camera.x = 20 - bounds.x * camera.k;
  camera.y = 30 - bounds.y * camera.k;
  apply();
}
function show(b) {
  const r = view.getBoundingClientRect();
  if (camera.k < 0.5) camera.k = 0.8;
  camera.x = r.width / 2 - (b.x + W / 2) * camera.k; camera.y = r.height / 2 - (b.y + H / 2) * camera.k;
  apply();
}
view.addEventListener("wheel", e => {
  e.preventDefault();
  const r = view.getBoundingClientRect();
  zoom(Math.exp(-e.deltaY * 0.0016), e.clientX - r.left, e.clientY - r.top);
}, {passive: false});
let drag = null;
view.addEventListener("pointerdown", e => { drag = {x: e.clientX, y: e.clientY, moved: false, target: e.target.closest(".box")}; });
window.addEventListener("pointermove", e => {
  if (!drag) return;
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
  drag.moved = true; drag.x = e.clientX; drag.y = e.clientY;
  view.classList.add("drag");
  camera.x += dx; camera.y += dy;
  apply();
});
window.addEventListener("pointerup", () => {
  if (drag && !drag.moved) select(drag.target ? boxes[+drag.target.dataset.i] : null);
  drag = null; view.classList.remove("drag");
});

// Selection: the box, what it reads and what reads it.
function select(b) {
  for (const kind of ["selected", "operand", "user"]) document.querySelectorAll("#world ." + kind).forEach(n => n.classList.remove(kind));
  view.classList.toggle("picked", !!b);
  $("details").innerHTML = "";
  if (!b) return;
  $("b" + b.i).classList.add("selected");
  const mark = (e, other, kind) => { $("e" + e.i).classList.add(kind); $("b" + other.i).classList.add(kind); };
  b.in.forEach(e => mark(e, e.from, "operand"));
  b.out.forEach(e => mark(e, e.to, "user"));
  const facts = [["panel", data.panels[isPair ? b.p : 0]], ["kind", b.slot ? `${b.k} (${b.slot})` : b.k], ["type", b.s], ["bytes", `${bytes(b.b)} (${b.b})`],
    ["scope", b.sc], ["made by", b.by], ["grad of", b.of], ["checkpoint", b.re], ["named", b.nm], ["operands", b.in.length], ["users", b.out.length]];
  const list = (kind, name, others) => others.length ? `<h3 class="${kind}">${name}</h3>` + others.map(o =>
    `<a data-go="${o.i}">${escapeHtml(o.t)} <small>${escapeHtml(o.s)}</small></a>`).join("") : "";
  $("details").innerHTML = `<h2>${escapeHtml(b.t)}</h2><pre>${escapeHtml(b.l)}</pre><dl>` +
    facts.filter(f => f[1] !== undefined && f[1] !== "").map(f => `<dt>${f[0]}</dt><dd>${escapeHtml(f[1])}</dd>`).join("") + "</dl>" +
    list("operand", "Reads", b.in.map(e => e.from)) + list("user", "Read by", b.out.map(e => e.to)) +
    (b.sub || []).map(code => `<h3>Subgraph</h3><pre>${escapeHtml(code)}</pre>`).join("");
}
$("details").addEventListener("click", e => {
  const link = e.target.closest("a[data-go]");
  if (link) { const b = boxes[+link.dataset.go]; select(b); show(b); }
});

// Search: every word must occur in the box's text.
let at = -1;
function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = b => [b.t, b.s, b.l, (b.g || []).join(" "), b.sc || "", b.by || "", b.re || "", b.nm || "", b.slot || ""].join(" ").toLowerCase();
  hits = words.length ? boxes.filter(b => { const t = text(b); return words.every(w => /^%\d+$/.test(w) ? new RegExp(w + "\\b").test(t) : t.includes(w)); }) : [];
  at = -1;
  boxes.forEach(b => $("b" + b.i).classList.remove("hit"));
  hits.forEach(b => $("b" + b.i).classList.add("hit"));
  view.classList.toggle("searching", words.length > 0);
  $("count").textContent = words.length ? `${hits.length} of ${boxes.length}` : "";
  overview();
}
function next(step) {
  if (!hits.length) return;
  at = (at + step + hits.length) % hits.length;
  $("count").textContent = `${at + 1} / ${hits.length}`;
  select(hits[at]); show(hits[at]);
}
$("search").addEventListener("input", search);
$("search").addEventListener("keydown", e => {
  if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
  if (e.key === "Escape") { $("search").value = ""; search(); $("search").blur(); }
  e.stopPropagation();
});
$("only").addEventListener("change", () => view.classList.toggle("only", $("only").checked));
const centre = factor => { const r = view.getBoundingClientRect(); zoom(factor, r.width / 2, r.height / 2); };
$("zoomin").onclick = () => centre(1.3); $("zoomout").onclick = () => centre(1 / 1.3);
$("fit").onclick = fit; $("top").onclick = top_;
$("theme").onclick = () => {
  const root = document.documentElement, dark = getComputedStyle(root).getPropertyValue("--page").trim() === "#14171c";
  root.dataset.theme = dark ? "light" : "dark";
  overview();
};
document.addEventListener("keydown", e => {
  if (e.target.matches("input") || e.ctrlKey || e.metaKey || e.altKey) return;
  const act = {"/": () => { e.preventDefault(); $("search").focus(); }, "+": () => centre(1.3), "=": () => centre(1.3), "-": () => centre(1 / 1.3),
    f: fit, t: top_, Escape: () => select(null)}[e.key];
  if (act) act();
});

// A link to one box or one search: #%12 or #tanh.
const total = list => bytes(list.reduce((s, b) => s + b.b, 0)), nodes = p => panels[p].filter(b => b.k === "node").length;
$("name").textContent = data.title;
$("sum").textContent = isPair ? `${nodes(0)} forward nodes · ${panels[1].length} residuals, ${total(panels[1])} · ${nodes(2)} backward nodes`
  : `${nodes(0)} nodes, ${edges.length} edges`;
top_();
if (location.hash.length > 1) { $("search").value = decodeURIComponent(location.hash.slice(1)); search(); next(1); }
</script>
</body>
</html>
)html";

}  // namespace diptych::detail
