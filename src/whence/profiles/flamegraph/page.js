// The flame graph's page: a tree from #data, drawn as far as it can be seen.
const data = JSON.parse(document.getElementById("data").textContent);
const el = (id) => document.getElementById(id);
const graph = el("graph");
const ROW = 20;
const count = data.frame.length;

// The tree: children in order of name, depth of each node.
const children = Array.from({ length: count }, () => []);
const depth = new Uint16Array(count);
for (let i = 1; i < count; i++) {
  children[data.parent[i]].push(i);
  depth[i] = depth[data.parent[i]] + 1;
}
const name = (i) => (i === 0 ? "all" : data.frames[data.frame[i]][0]);
for (const row of children) row.sort((a, b) => (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : a - b));
const reason = (i) => (i === 0 || data.frames[data.frame[i]][4] < 0 ? "" : data.reasons[data.frames[data.frame[i]][4]]);
const binary = (i) => (i === 0 ? "" : data.binaries[data.frames[data.frame[i]][3]]);
const hue = (b) => (b * 137.508 + 40) % 360;
const UNNAMED = "is:unnamed"; // as a search: every frame without a name

// Frames of one binary share a hue; a little lightness tells their functions apart.
const shades = new Map();
function shade(i) {
  const text = name(i);
  let found = shades.get(text);
  if (found === undefined) {
    let hash = 7;
    for (let at = 0; at < text.length; at++) hash = (hash * 31 + text.charCodeAt(at)) | 0;
    found = ((hash >>> 3) % 9) - 4;
    shades.set(text, found);
  }
  return found;
}

const state = { type: data.type, zoom: 0, at: -1, flipped: false, past: [], hits: null, theme: "", listed: false };
let total = new Float64Array(count);

function addUp() {
  const own = data.self[state.type] ?? [];
  total = new Float64Array(count);
  for (let i = count - 1; i >= 0; i--) {
    total[i] += Math.max(0, own[i] ?? 0);
    if (i > 0) total[data.parent[i]] += total[i];
  }
}

function amount(value) {
  const unit = data.types[state.type]?.[1] ?? "";
  const scaled = (steps) => {
    for (const [size, label] of steps) if (value >= size) return `${(value / size).toFixed(2)} ${label}`;
    return `${value} ${steps.at(-1)[1]}`;
  };
  if (unit === "nanoseconds") return scaled([[3.6e12, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
  if (unit === "bytes") return scaled([[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
  return `${value.toLocaleString("en")}${unit && unit !== "count" ? ` ${unit}` : ""}`;
}
const share = (value) => `${total[0] ? ((100 * value) / total[0]).toFixed(2) : "0.00"} %`;

const ancestors = (i) => {
  const out = [];
  for (let at = i; at > 0; at = data.parent[at]) out.unshift(data.parent[at]);
  return out;
};

// Which nodes can be seen, and where: left and width are parts of the zoomed frame's width.
function layout() {
  const out = ancestors(state.zoom).map((node) => ({ node, left: 0, width: 1, above: true }));
  const smallest = 0.6 / Math.max(200, graph.clientWidth);
  const scale = total[state.zoom] || 1;
  const stack = [{ node: state.zoom, left: 0 }];
  while (stack.length) {
    const { node, left } = stack.pop();
    const width = total[node] / scale;
    if (width < smallest && node !== state.zoom) continue;
    out.push({ node, left, width, above: false });
    let at = left;
    for (const child of children[node]) {
      if (total[child] > 0) stack.push({ node: child, left: at });
      at += total[child] / scale;
    }
  }
  return out;
}

let drawn = [];
const boxes = new Map();

function draw() {
  drawn = layout();
  const rows = drawn.reduce((most, one) => Math.max(most, depth[one.node]), 0) + 1;
  const room = Math.max(rows * ROW, graph.clientHeight - 4);
  const wide = graph.clientWidth;
  const fragment = document.createDocumentFragment();
  boxes.clear();
  for (const { node, left, width, above } of drawn) {
    const box = document.createElement("div");
    const classes = ["f"];
    if (node === 0) classes.push("root");
    if (above) classes.push("above");
    if (reason(node)) classes.push("unnamed");
    if (state.hits) classes.push(state.hits.has(node) ? "hit" : "off");
    if (node === state.at) classes.push("at");
    if (width * wide < 24) classes.push("thin");
    else {
      box.append(Object.assign(document.createElement("span"), { textContent: name(node) }));
      if (width * wide > 200 && node) box.dataset.share = share(total[node]);
    }
    box.className = classes.join(" ");
    box.dataset.node = node;
    box.style.left = `${100 * left}%`;
    box.style.width = `${100 * width}%`;
    box.style.top = `${state.flipped ? room - (depth[node] + 1) * ROW : depth[node] * ROW}px`;
    if (node) {
      box.style.setProperty("--hue", hue(data.frames[data.frame[node]][3]));
      box.style.setProperty("--shade", `${shade(node)}%`);
    }
    boxes.set(node, box);
    fragment.append(box);
  }
  const floor = document.createElement("div");
  floor.style.height = `${room}px`;
  graph.replaceChildren(fragment, floor);
  el("back").disabled = !state.past.length;
  el("reset").disabled = !state.zoom && !state.hits;
  path();
}

function path() {
  const bar = el("path");
  bar.replaceChildren();
  for (const node of [...ancestors(state.zoom), state.zoom]) {
    if (bar.childNodes.length) bar.append(" › ");
    const link = document.createElement("a");
    link.textContent = name(node);
    link.onclick = () => zoom(node);
    bar.append(link);
  }
}

// What is known of a node, as lines of text.
function facts(node) {
  const own = Math.max(0, data.self[state.type]?.[node] ?? 0);
  const [, file = "", line = 0] = node ? data.frames[data.frame[node]] : [];
  return {
    title: name(node),
    reason: reason(node),
    place: [binary(node), file && (line ? `${file}:${line}` : file)].filter(Boolean).join(" · "),
    size: `${amount(total[node])} · ${share(total[node])} of all · itself ${amount(own)} (${share(own)})`,
  };
}

function describe(node) {
  const { title, reason: why, place, size } = facts(node);
  el("detail").textContent = [title, why && `no name: ${why}`, place, size].filter(Boolean).join(" — ");
}

function tip(node, event) {
  const box = el("tip");
  const { title, reason: why, place, size } = facts(node);
  box.replaceChildren();
  for (const [tag, text] of [["b", title], ["em", why && `no name: ${why}`], ["small", place], ["small", size]]) {
    if (!text) continue;
    const line = document.createElement(tag);
    line.textContent = text;
    box.append(line);
  }
  box.hidden = false;
  const { offsetWidth: w, offsetHeight: h } = box;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 8))}px`;
  box.style.top = `${event.clientY + 18 + h > innerHeight ? event.clientY - h - 10 : event.clientY + 18}px`;
}

function zoom(node, remember = true) {
  if (remember && node !== state.zoom) state.past.push(state.zoom);
  state.zoom = node;
  state.at = node;
  draw();
  list();
  describe(node);
  save();
}

function back() {
  zoom(state.past.pop() ?? 0, false);
}

// Search: what matches, and how much of everything lies under it (each value counted once).
function search(text) {
  el("search").value = text;
  state.hits = null;
  el("found").textContent = "";
  if (text) {
    let matches;
    if (text === UNNAMED) matches = () => false;
    else try {
      const pattern = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
      matches = (s) => pattern.test(s);
    } catch {
      matches = (s) => s.toLowerCase().includes(text.toLowerCase());
    }
    const good = data.frames.map((frame) => (text === UNNAMED && frame[4] >= 0) || matches(frame[0]) || matches(frame[1]) || matches(data.binaries[frame[3]]));
    state.hits = new Set();
    const inside = new Uint8Array(count);
    let value = 0;
    for (let i = 1; i < count; i++) {
      const hit = good[data.frame[i]];
      if (hit) state.hits.add(i);
      if (hit && !inside[data.parent[i]]) value += total[i];
      inside[i] = hit || inside[data.parent[i]];
    }
    el("found").textContent = `${state.hits.size.toLocaleString("en")} found, ${share(value)}`;
  }
  draw();
  save();
}

function legend() {
  const bar = el("legend");
  const sizes = new Float64Array(data.binaries.length);
  for (let i = 1; i < count; i++) sizes[data.frames[data.frame[i]][3]] += Math.max(0, data.self[state.type]?.[i] ?? 0);
  bar.replaceChildren();
  for (const b of [...sizes.keys()].sort((x, y) => sizes[y] - sizes[x])) {
    const item = document.createElement("span");
    const dot = document.createElement("i");
    dot.style.setProperty("--hue", hue(b));
    item.append(dot, `${data.binaries[b] || "no binary"} ${share(sizes[b])}`);
    item.title = "Search for this binary";
    item.onclick = () => search(data.binaries[b].replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    bar.append(item);
  }
  let blank = 0;
  for (let i = 1; i < count; i++) if (reason(i)) blank += Math.max(0, data.self[state.type]?.[i] ?? 0);
  if (!data.frames.some((frame) => frame[4] >= 0)) return;
  const item = document.createElement("span");
  const dot = document.createElement("i");
  dot.className = "unnamed";
  item.append(dot, `no name ${share(blank)}`);
  item.title = "Search for the frames without a name";
  item.onclick = () => search(UNNAMED);
  bar.append(item);
}

// Functions by what they take, themselves and with what they call (a call inside itself counts once).
function functions() {
  const own = new Float64Array(data.frames.length);
  const all = new Float64Array(data.frames.length);
  const open = new Uint16Array(data.frames.length);
  const stack = [[state.zoom, false]];
  while (stack.length) {
    const [node, done] = stack.pop();
    const frame = node ? data.frame[node] : -1;
    if (done) {
      open[frame]--;
      continue;
    }
    if (frame >= 0) {
      own[frame] += Math.max(0, data.self[state.type]?.[node] ?? 0);
      if (!open[frame]) all[frame] += total[node];
      open[frame]++;
      stack.push([node, true]);
    }
    for (const child of children[node]) if (total[child] > 0) stack.push([child, false]);
  }
  return { own, all };
}

// The list beside the graph: functions under the zoom, by what they take themselves.
function list() {
  const panel = el("list");
  panel.hidden = !state.listed;
  el("functions").setAttribute("aria-pressed", String(state.listed));
  if (!state.listed) return;
  const { own, all } = functions();
  const order = [...own.keys()].filter((f) => all[f] > 0).sort((x, y) => own[y] - own[x] || all[y] - all[x]).slice(0, 200);
  const table = document.createElement("table");
  table.innerHTML = "<thead><tr><th>itself</th><th>with calls</th><th>function</th></tr></thead>";
  const body = table.createTBody();
  for (const f of order) {
    const row = body.insertRow();
    row.insertCell().textContent = share(own[f]);
    row.insertCell().textContent = share(all[f]);
    const cell = row.insertCell();
    cell.textContent = data.frames[f][0];
    cell.title = [data.frames[f][0], data.binaries[data.frames[f][3]], data.frames[f][1]].filter(Boolean).join("\n");
    cell.style.setProperty("--hue", hue(data.frames[f][3]));
    if (data.frames[f][4] >= 0) cell.className = "unnamed";
    row.onclick = () => search(`^${data.frames[f][0].replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
  }
  panel.replaceChildren(table);
}

// Arrow keys walk the drawn frames: outwards, inwards, to the neighbours.
function move(key) {
  const at = state.at < 0 ? state.zoom : state.at;
  const seen = (node) => boxes.has(node);
  let to = at;
  const inward = state.flipped ? "ArrowUp" : "ArrowDown";
  if (key === inward) to = children[at].filter(seen).sort((a, b) => total[b] - total[a])[0] ?? at;
  else if (key === "ArrowUp" || key === "ArrowDown") to = Math.max(0, data.parent[at]);
  else if (at > 0) {
    const row = children[data.parent[at]].filter(seen);
    to = row[row.indexOf(at) + (key === "ArrowRight" ? 1 : -1)] ?? at;
  }
  boxes.get(state.at)?.classList.remove("at");
  state.at = to;
  boxes.get(to)?.classList.add("at");
  boxes.get(to)?.scrollIntoView({ block: "nearest" });
  describe(to);
}

const theme = (value) => {
  document.documentElement.dataset.theme = value;
};

function toggleTheme() {
  state.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(state.theme);
  save();
}

function toggleList() {
  state.listed = !state.listed;
  list();
  draw();
}

// The address keeps the view: #q=search&z=node&t=type
function save() {
  const part = new URLSearchParams();
  if (el("search").value) part.set("q", el("search").value);
  if (state.zoom) part.set("z", state.zoom);
  if (state.type !== data.type) part.set("t", state.type);
  if (state.theme) part.set("theme", state.theme);
  history.replaceState(null, "", part.size ? `#${part}` : location.pathname + location.search);
}

function restore() {
  const part = new URLSearchParams(location.hash.slice(1));
  const whole = (key, limit, other) => (Number(part.get(key)) < limit && part.has(key) ? Math.max(0, Number(part.get(key)) | 0) : other);
  state.type = whole("t", data.types.length, data.type);
  state.zoom = whole("z", count, 0);
  state.theme = ["dark", "light"].includes(part.get("theme")) ? part.get("theme") : "";
  theme(state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  addUp();
  legend();
  search(part.get("q") ?? "");
  describe(state.zoom);
}

const under = (event) => event.target.closest?.(".f")?.dataset.node;
graph.addEventListener("click", (event) => under(event) !== undefined && zoom(Number(under(event))));
graph.addEventListener("mousemove", (event) => {
  const node = under(event);
  if (node === undefined) el("tip").hidden = true;
  else {
    tip(Number(node), event);
    describe(Number(node));
  }
});
graph.addEventListener("mouseleave", () => (el("tip").hidden = true));
el("search").addEventListener("input", (event) => search(event.target.value));
el("reset").onclick = () => { state.past = []; search(""); zoom(0, false); };
el("back").onclick = back;
el("flip").onclick = () => { state.flipped = !state.flipped; draw(); if (state.flipped) graph.scrollTop = graph.scrollHeight; };
el("theme").onclick = toggleTheme;
el("functions").onclick = toggleList;
el("keys").onclick = () => el("help").showModal();
el("help").onclick = () => el("help").close();
el("type").append(...data.types.map(([type, unit], i) => new Option(unit ? `${type} (${unit})` : type, i, i === data.type, i === data.type)));
el("type").onchange = (event) => { state.type = Number(event.target.value); addUp(); legend(); list(); search(el("search").value); };
addEventListener("resize", draw);
addEventListener("keydown", (event) => {
  if (el("help").open) {
    if (event.key === "?") el("help").close();
    return;
  }
  if (event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey))) {
    if (document.activeElement !== el("search")) { event.preventDefault(); el("search").focus(); }
    return;
  }
  if (event.key === "Escape") { el("search").blur(); el("reset").click(); return; }
  if (document.activeElement === el("search") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith("Arrow")) { event.preventDefault(); move(event.key); }
  else if (event.key === "Enter") zoom(Math.max(0, state.at));
  else if (event.key === "Backspace") { event.preventDefault(); back(); }
  else if (event.key === "i") el("flip").click();
  else if (event.key === "t") toggleTheme();
  else if (event.key === "l") toggleList();
  else if (event.key === "?") el("help").showModal();
});
restore();
el("type").value = state.type;
