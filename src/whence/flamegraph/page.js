// The flame graph's page: the tree in #data (see data.py); only visible frames are drawn.
const data = JSON.parse(document.getElementById("data").textContent);
const el = (id) => document.getElementById(id);
const graph = el("graph");
const ROW = 20; // pixels from one row to the next
const PADDING = 10; // pixels of a frame around its name
const MORE_ROWS = 20; // drawn above and below the visible rows, for scrolling
const LIST_ROWS = 200; // functions listed at first
const LEGEND_ITEMS = 40;
const TEXT_ROWS = 3; // of a name in the list of functions

// Decode a column: numbers as zigzag LEB128 in base64.
function unpack(text) {
  const bytes = atob(text);
  let size = 0;
  for (let index = 0; index < bytes.length; index++) if (bytes.charCodeAt(index) < 128) size++;
  const out = new Float64Array(size);
  let value = 0;
  let scale = 1;
  for (let index = 0, to = 0; index < bytes.length; index++) {
    const byte = bytes.charCodeAt(index);
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte > 127) continue;
    out[to++] = value % 2 ? -(value + 1) / 2 : value / 2;
    value = 0;
    scale = 1;
  }
  return out;
}

const frames = {};
for (const column of ["name", "file", "binary", "reason", "group"]) frames[column] = unpack(data[column]);
const self = data.self.map(unpack);
const frameOf = unpack(data.frame);
const up = unpack(data.up);
const count = frameOf.length;
const line = unpack(data.line);
const lineAt = new Uint32Array(count + 1);
unpack(data.count).forEach((lines, i) => (lineAt[i + 1] = lineAt[i] + lines));

const nameOf = (frame) => data.names[frames.name[frame]];
const name = (i) => (i === 0 ? "all" : nameOf(frameOf[i]));
const reasonOf = (frame) => (frames.reason[frame] ? data.reasons[frames.reason[frame] - 1] : "");
const reason = (i) => (i === 0 ? "" : reasonOf(frameOf[i]));
const binaryOf = (frame) => data.binaries[frames.binary[frame]];
const groupOf = (frame) => (frames.group[frame] ? data.groups[frames.group[frame] - 1] : "");
const hue = (group) => ((group - 1) * 137.508 + 40) % 360;
const compared = data.compared; // in a difference the number of types; the types of the base follow them. Else 0
const UNNAMED = "is:unnamed"; // search for frames without a name
const INSIDE = "in:"; // search for frames of an item of the legend

// Parents and depths; a node's subtree is [i, after[i]). Children are sorted by name; the frame that replaces the others is last.
const parent = new Uint32Array(count);
const depth = new Uint16Array(count);
const after = new Uint32Array(count);
for (let i = 1; i < count; i++) {
  let above = i - 1;
  for (let levels = up[i]; levels > 0; levels--) above = parent[above];
  parent[i] = above;
  depth[i] = depth[above] + 1;
}
for (let i = count - 1; i >= 0; i--) {
  after[i] = Math.max(after[i], i + 1);
  if (i) after[parent[i]] = Math.max(after[parent[i]], after[i]);
}

// First index of each number below `limit`, for a stable counting sort.
function starts(numbers, limit) {
  const out = new Uint32Array(limit + 1);
  for (const number of numbers) out[number + 1]++;
  for (let index = 0; index < limit; index++) out[index + 1] += out[index];
  return out;
}

const firstKid = starts(parent.subarray(1), count);
const kids = new Uint32Array(Math.max(0, count - 1));
{
  const byName = [...frames.name.keys()].sort((a, b) => {
    if (a === data.smaller || b === data.smaller) return a === data.smaller ? 1 : -1;
    return nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a - b;
  });
  const rank = new Uint32Array(byName.length);
  byName.forEach((frame, index) => (rank[frame] = index));
  const ranks = Uint32Array.from(frameOf.subarray(1), (frame) => rank[frame]);
  const to = starts(ranks, rank.length);
  const order = new Uint32Array(kids.length);
  ranks.forEach((number, index) => (order[to[number]++] = index + 1));
  const next = firstKid.slice();
  for (const node of order) kids[next[parent[node]]++] = node;
}
const children = (i) => kids.subarray(firstKid[i], firstKid[i + 1]);

// Frames of a group share a hue; functions differ in lightness.
const shades = new Int8Array(frames.name.length).fill(-128);
function shade(frame) {
  if (shades[frame] === -128) {
    const text = nameOf(frame);
    let hash = 7;
    for (let index = 0; index < text.length; index++) hash = (hash * 31 + text.charCodeAt(index)) | 0;
    shades[frame] = ((hash >>> 3) % 9) - 4;
  }
  return shades[frame];
}

function paint(element, frame) {
  if (frames.group[frame]) element.style.setProperty("--hue", hue(frames.group[frame]));
  else element.classList.add("plain");
}

// Red frames grew, blue frames shrank; stronger colors are larger changes.
function tint(element, change, size) {
  element.classList.add(change > 0 ? "more" : change < 0 ? "less" : "same");
  element.style.setProperty("--change", `${size ? Math.round(15 + (85 * Math.abs(change)) / size) : 0}%`);
}

// Fit a text into a width in pixels: its middle is cut, as names differ at their ends.
const pen = document.createElement("canvas").getContext("2d");
pen.font = "12px system-ui, sans-serif";
const widths = new Map();
const width = (text) => {
  let wide = widths.get(text);
  if (wide === undefined) widths.set(text, (wide = pen.measureText(text).width));
  return wide;
};
function fit(text, pixels) {
  const wide = width(text);
  if (wide <= pixels) return text;
  for (let keep = Math.floor((text.length * pixels) / wide); keep > 2; keep--) {
    const tail = Math.ceil((keep - 1) * 0.6);
    const cut = `${text.slice(0, keep - 1 - tail)}…${text.slice(text.length - tail)}`;
    if (pen.measureText(cut).width <= pixels) return cut;
  }
  return "";
}

const state = { type: data.type, zoom: 0, current: -1, flipped: false, past: [], hits: null, theme: "", listed: false, sort: "self", up: false, rows: LIST_ROWS, normalized: false };
let total = new Float64Array(count); // width of each node
let grown = total; // in a difference: new values, and the values of the base
let before = total;
let factor = 1; // scale of the base, if normalized to the new total

// Values that end in a node; negative values have no width. In a difference both sides are added.
const part = (type, i) => Math.max(0, self[type]?.[i] ?? 0);
const base = (i) => (compared ? factor * part(state.type + compared, i) : 0);
const own = (i) => part(state.type, i) + base(i);
const change = (i) => grown[i] - before[i];
const ownChange = (i) => part(state.type, i) - base(i);

function sums(value) {
  const out = new Float64Array(count);
  for (let i = count - 1; i >= 0; i--) {
    out[i] += value(i);
    if (i > 0) out[parent[i]] += out[i];
  }
  return out;
}

function addUp() {
  factor = 1;
  if (compared) {
    grown = sums((i) => part(state.type, i));
    before = sums(base);
    if (state.normalized && grown[0] && before[0]) {
      factor = grown[0] / before[0];
      before = sums(base);
    }
  }
  total = sums(own);
}

function amount(value) {
  if (value < 0) return `-${amount(-value)}`;
  value = Number(value.toFixed(value < 10 ? 2 : 0)); // normalized values have a fraction
  const unit = data.types[state.type]?.[1] ?? "";
  const scaled = (steps) => {
    for (const [size, label] of steps) if (size > 1 && value >= size) return `${(value / size).toFixed(2)} ${label}`;
    return `${value} ${steps.at(-1)[1]}`;
  };
  if (unit === "nanoseconds") return scaled([[3.6e12, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
  if (unit === "bytes") return scaled([[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
  return `${value.toLocaleString("en")}${unit && unit !== "count" ? ` ${unit}` : ""}`;
}
const share = (value) => `${total[0] ? ((100 * value) / total[0]).toFixed(2) : "0.00"} %`;

const signed = (value, text) => (value > 0 ? `+${text}` : text);
const baseTotal = () => before[0] || grown[0] || 1;
const changed = (value) => signed(value, `${((100 * value) / baseTotal()).toFixed(2)} %`); // as a share of the base

const ancestors = (i) => {
  const out = [];
  for (let node = i; node > 0; node = parent[node]) out.push(parent[node]);
  return out.reverse();
};

// The visible nodes; left and width are relative to the zoomed frame.
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
    let offset = left;
    for (const child of children(node)) {
      if (total[child] > 0) stack.push({ node: child, left: offset });
      offset += total[child] / scale;
    }
  }
  return out;
}

let drawn = [];
const boxes = new Map(); // of the nodes on the screen
const seen = new Set(); // nodes that are wide enough to draw

function draw() {
  drawn = layout();
  seen.clear();
  let rows = 0;
  for (const { node } of drawn) {
    seen.add(node);
    rows = Math.max(rows, depth[node] + 1);
  }
  state.height = Math.max(rows * ROW, graph.clientHeight - 4);
  show();
  el("back").disabled = !state.past.length;
  el("reset").disabled = !state.zoom && !state.hits;
  path();
}

const top = (node) => (state.flipped ? state.height - (depth[node] + 1) * ROW : depth[node] * ROW);

// Make boxes for the visible rows.
function show() {
  const wide = graph.clientWidth;
  const from = graph.scrollTop - MORE_ROWS * ROW;
  const to = graph.scrollTop + graph.clientHeight + MORE_ROWS * ROW;
  const fragment = document.createDocumentFragment();
  boxes.clear();
  for (const { node, left, width, above } of drawn) {
    const offset = top(node);
    if (offset < from || offset > to) continue;
    const box = document.createElement("div");
    const classes = ["f"];
    if (node === 0) classes.push("root");
    if (above) classes.push("above");
    if (reason(node)) classes.push("unnamed");
    if (state.hits) classes.push(state.hits.has(node) ? "hit" : "off");
    if (node === state.current) classes.push("current");
    box.className = classes.join(" ");
    const pixels = width * wide;
    if (pixels < 24) box.classList.add("thin");
    else {
      const shared = pixels > 200 && node > 0;
      box.append(Object.assign(document.createElement("span"), { textContent: fit(name(node), pixels - PADDING - (shared ? 60 : 0)) }));
      if (shared) box.dataset.share = compared ? changed(change(node)) : share(total[node]);
    }
    box.dataset.node = node;
    box.style.left = `${100 * left}%`;
    box.style.width = `${100 * width}%`;
    box.style.top = `${offset}px`;
    if (node) {
      if (compared) tint(box, change(node), total[node]);
      else paint(box, frameOf[node]);
      box.style.setProperty("--shade", `${shade(frameOf[node])}%`);
    }
    boxes.set(node, box);
    fragment.append(box);
  }
  const floor = document.createElement("div");
  floor.style.height = `${state.height}px`;
  graph.replaceChildren(fragment, floor);
}

// The zoomed frame and its callers; of many only the first and the last.
function path() {
  const bar = el("path");
  bar.replaceChildren();
  const nodes = [...ancestors(state.zoom), state.zoom];
  nodes.forEach((node, index) => {
    if (nodes.length > 14 && index > 2 && index < nodes.length - 10) {
      if (index === 3) bar.append(" › …");
      return;
    }
    if (index) bar.append(" › ");
    const link = document.createElement("a");
    link.textContent = fit(name(node), 240);
    link.title = name(node);
    link.onclick = () => zoom(node);
    bar.append(link);
  });
  bar.scrollLeft = bar.scrollWidth;
}

// Description of a node, as lines of text.
function facts(node) {
  const file = node ? data.files[frames.file[frameOf[node]]] : "";
  const lines = [...line.subarray(lineAt[node], lineAt[node + 1])];
  if (lines.length >= data.lines) lines.push("…");
  return {
    title: name(node),
    reason: reason(node),
    place: [node ? binaryOf(frameOf[node]) : "", file && (lines.length ? `${file}:${lines.join(", ")}` : file)].filter(Boolean).join(" · "),
    size: compared ? sizes(node) : `total ${amount(total[node])} (${share(total[node])}) · self ${amount(own(node))} (${share(own(node))})`,
  };
}

// Values of both sides of a difference, and their change.
function sizes(node) {
  const side = (name, value, all) => `${name} ${amount(value)} (${((100 * value) / (all || 1)).toFixed(2)} %)`;
  const [more, less] = [change(node), ownChange(node)];
  return [
    side("new", grown[node], grown[0]),
    side("base", before[node], before[0]),
    `change ${signed(more, amount(more))} (${changed(more)})`,
    `self ${signed(less, amount(less))}`,
  ].join(" · ");
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

const hideTip = () => (el("tip").hidden = true);

function reveal(node) {
  const offset = top(node);
  if (offset < graph.scrollTop) graph.scrollTop = offset;
  else if (offset + ROW > graph.scrollTop + graph.clientHeight) graph.scrollTop = offset + ROW - graph.clientHeight;
  else return;
  show();
}

function zoom(node, remember = true) {
  if (remember && node !== state.zoom) state.past.push(state.zoom);
  state.zoom = node;
  state.current = node;
  hideTip();
  draw();
  reveal(node);
  list();
  describe(node);
  save();
}

function back() {
  zoom(state.past.pop() ?? 0, false);
}

// Frames that match a search: 1 or 0 for each.
function matching(text) {
  const each = (test) => Uint8Array.from(frames.name, (_, frame) => test(frame));
  if (text === UNNAMED) return each((frame) => frames.reason[frame] > 0);
  if (text.startsWith(INSIDE)) return each((frame) => groupOf(frame) === text.slice(INSIDE.length));
  let matches;
  try {
    const pattern = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
    matches = (s) => pattern.test(s);
  } catch {
    matches = (s) => s.toLowerCase().includes(text.toLowerCase());
  }
  const [names, files, binaries] = [data.names, data.files, data.binaries].map((texts) => texts.map(matches));
  return each((frame) => names[frames.name[frame]] || files[frames.file[frame]] || binaries[frames.binary[frame]]);
}

// Search: matching frames, and their share of the total (each value counted once).
function search(text) {
  el("search").value = text;
  state.hits = null;
  hideTip();
  el("found").textContent = "";
  if (text) {
    const good = matching(text);
    state.hits = new Set();
    const inside = new Uint8Array(count);
    let value = 0;
    for (let i = 1; i < count; i++) {
      const hit = good[frameOf[i]];
      if (hit) state.hits.add(i);
      if (hit && !inside[parent[i]]) value += total[i];
      inside[i] = hit || inside[parent[i]];
    }
    el("found").textContent = `${state.hits.size.toLocaleString("en")} found, ${share(value)}`;
  }
  draw();
  save();
}

// The meaning of each color, with its share of self; a click searches for it.
function legend() {
  const bar = el("legend");
  const sizes = new Float64Array(data.groups.length + 1);
  let unnamed = 0;
  let smaller = 0;
  for (let i = 1; i < count; i++) {
    const frame = frameOf[i];
    if (frame === data.smaller) smaller += own(i);
    else sizes[frames.group[frame]] += own(i);
    if (frames.reason[frame]) unnamed += own(i);
  }
  bar.replaceChildren();
  if (compared) {
    for (const [kind, label, sign] of [["more", "grew", 1], ["less", "shrank", -1]]) {
      let value = 0;
      for (let i = 0; i < count; i++) value += Math.max(0, sign * ownChange(i));
      const item = document.createElement("span");
      const dot = document.createElement("i");
      dot.className = kind;
      item.append(dot, `${label} ${changed(sign * value)}`);
      bar.append(item);
    }
    const item = document.createElement("small");
    item.textContent = `new ${amount(grown[0])}, base ${amount(before[0])}`;
    bar.append(item);
    return;
  }
  const add = (label, value, text, group, kind) => {
    const item = document.createElement("span");
    const dot = document.createElement("i");
    if (group) dot.style.setProperty("--hue", hue(group));
    else dot.className = kind;
    item.append(dot, `${fit(label, 240)} ${share(value)}`);
    item.title = `Search for ${label}`;
    item.onclick = () => search(text);
    bar.append(item);
  };
  const groups = [...sizes.keys()].slice(1).sort((x, y) => sizes[y] - sizes[x]);
  for (const group of groups.slice(0, LEGEND_ITEMS)) add(data.groups[group - 1], sizes[group], INSIDE + data.groups[group - 1], group);
  const others = groups.slice(LEGEND_ITEMS);
  if (others.length) {
    const item = document.createElement("small");
    item.textContent = `and ${others.length} more ${share(others.reduce((sum, group) => sum + sizes[group], sizes[0]))}`;
    bar.append(item);
  }
  if (data.smaller >= 0) add(nameOf(data.smaller), smaller, `^${quoted(nameOf(data.smaller))}$`, 0, "plain");
  if (frames.reason.some(Boolean)) add("no name", unnamed, UNNAMED, 0, "unnamed");
}

const quoted = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// Self and total of each frame under the zoom (a call inside itself counts once).
function functions() {
  const selfs = new Float64Array(frames.name.length);
  const totals = new Float64Array(frames.name.length);
  const open = new Uint16Array(frames.name.length);
  const callers = []; // the nodes from the zoom to the present node
  for (let i = Math.max(1, state.zoom); i < after[state.zoom]; i++) {
    while (callers.length && depth[callers.at(-1)] >= depth[i]) open[frameOf[callers.pop()]]--;
    const frame = frameOf[i];
    selfs[frame] += compared ? ownChange(i) : own(i);
    if (!open[frame]) totals[frame] += compared ? change(i) : total[i];
    open[frame]++;
    callers.push(i);
  }
  return { selfs, totals };
}

const COLUMNS = ["self", "total", "function"];

// The list beside the graph (below it on a phone): functions under the zoom, sorted by the selected header.
function list() {
  const panel = el("list");
  panel.hidden = !state.listed;
  el("middle").classList.toggle("listed", state.listed);
  el("functions").setAttribute("aria-pressed", String(state.listed));
  if (!state.listed) return;
  const { selfs, totals } = functions();
  const size = compared ? Math.abs : (value) => value; // in a difference, the largest change is first
  const compare = {
    self: (x, y) => size(selfs[y]) - size(selfs[x]) || size(totals[y]) - size(totals[x]),
    total: (x, y) => size(totals[y]) - size(totals[x]) || size(selfs[y]) - size(selfs[x]),
    function: (x, y) => (nameOf(x) < nameOf(y) ? -1 : nameOf(x) > nameOf(y) ? 1 : x - y),
  }[state.sort];
  const order = [...selfs.keys()].filter((frame) => totals[frame] > 0 || (compared && (totals[frame] || selfs[frame]))).sort(state.up ? (x, y) => compare(y, x) : compare);
  const table = document.createElement("table");
  const header = table.createTHead().insertRow();
  for (const column of COLUMNS) {
    const cell = document.createElement("th");
    const button = document.createElement("button");
    const sorted = column === state.sort;
    const downward = (column === "function") === state.up;
    button.textContent = column + (sorted ? (downward ? " ▾" : " ▴") : "");
    if (sorted) cell.setAttribute("aria-sort", downward ? "descending" : "ascending");
    button.onclick = () => {
      state.up = sorted && !state.up;
      state.sort = column;
      list();
    };
    cell.append(button);
    header.append(cell);
  }
  const body = table.createTBody();
  panel.replaceChildren(table);
  const pixels = Math.max(120, panel.clientWidth - 2 * 75 - 20) * TEXT_ROWS * 0.9;
  for (const frame of order.slice(0, state.rows)) {
    const row = body.insertRow();
    for (const value of [selfs[frame], totals[frame]]) row.insertCell().textContent = compared ? changed(value) : share(value);
    const cell = row.insertCell();
    cell.textContent = fit(nameOf(frame), pixels);
    cell.title = [nameOf(frame), binaryOf(frame), data.files[frames.file[frame]]].filter(Boolean).join("\n");
    paint(cell, frame);
    if (frames.reason[frame]) cell.classList.add("unnamed");
    row.onclick = () => search(`^${quoted(nameOf(frame))}$`);
  }
  if (order.length > state.rows) {
    const more = document.createElement("button");
    more.textContent = `Show more (${state.rows.toLocaleString("en")} of ${order.length.toLocaleString("en")})`;
    more.onclick = () => {
      state.rows *= 5;
      list();
    };
    panel.append(more);
  }
}

// Arrow keys move between the drawn frames: to the caller, the largest callee, the neighbors.
function move(key) {
  const node = state.current < 0 ? state.zoom : state.current;
  const wide = (each) => seen.has(each);
  let to = node;
  const inward = state.flipped ? "ArrowUp" : "ArrowDown";
  if (key === inward) to = [...children(node)].filter(wide).sort((a, b) => total[b] - total[a])[0] ?? node;
  else if (key === "ArrowUp" || key === "ArrowDown") to = parent[node];
  else if (node > 0) {
    const row = [...children(parent[node])].filter(wide);
    to = row[row.indexOf(node) + (key === "ArrowRight" ? 1 : -1)] ?? node;
  }
  boxes.get(state.current)?.classList.remove("current");
  state.current = to;
  boxes.get(to)?.classList.add("current");
  hideTip();
  reveal(to);
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

// Show another type, or scale the base.
function remeasure() {
  addUp();
  legend();
  list();
  search(el("search").value);
  describe(state.zoom);
}

function toggleList() {
  state.listed = !state.listed;
  list();
  draw();
  save();
}

// The address has the view: #q=search&z=node&t=type&theme=dark&list=1
function save() {
  const part = new URLSearchParams();
  if (el("search").value) part.set("q", el("search").value);
  if (state.zoom) part.set("z", state.zoom);
  if (state.type !== data.type) part.set("t", state.type);
  if (state.theme) part.set("theme", state.theme);
  if (state.listed) part.set("list", 1);
  if (state.normalized) part.set("normalized", 1);
  if (location.protocol === "about:") return; // shown within another page
  history.replaceState(null, "", part.size ? `#${part}` : location.pathname + location.search);
}

function restore() {
  const part = new URLSearchParams(location.hash.slice(1));
  const number = (key, limit, other) => (Number(part.get(key)) < limit && part.has(key) ? Math.max(0, Number(part.get(key)) | 0) : other);
  el("note").textContent = [
    data.pruned && `Only the ${(frameOf.filter((frame) => frame !== data.smaller).length - 1).toLocaleString("en")} largest frames are shown; frames named ${nameOf(data.smaller)} replace the others.`,
    data.depth && `Calls deeper than ${data.depth.toLocaleString("en")} frames are left out.`,
  ].filter(Boolean).join(" ");
  el("note").hidden = !el("note").textContent;
  state.type = number("t", compared || data.types.length, data.type);
  state.normalized = compared > 0 && part.has("normalized");
  el("normalize").hidden = !compared;
  el("normalize").setAttribute("aria-pressed", String(state.normalized));
  state.zoom = number("z", count, 0);
  state.theme = ["dark", "light"].includes(part.get("theme")) ? part.get("theme") : "";
  state.listed = part.has("list");
  theme(state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  addUp();
  legend();
  list();
  search(part.get("q") ?? "");
  describe(state.zoom);
}

const under = (event) => event.target.closest?.(".f")?.dataset.node;
let clicked = null; // position: browsers report a moving pointer when the element under it changes
graph.addEventListener("click", (event) => {
  clicked = [event.clientX, event.clientY];
  if (under(event) !== undefined) zoom(Number(under(event)));
});
graph.addEventListener("mousemove", (event) => {
  const node = under(event);
  if (clicked && Math.hypot(event.clientX - clicked[0], event.clientY - clicked[1]) < 3) return;
  clicked = null;
  if (node === undefined) hideTip();
  else {
    tip(Number(node), event);
    describe(Number(node));
  }
});
graph.addEventListener("mouseleave", hideTip);
graph.addEventListener("scroll", () => { // once a frame
  hideTip();
  show();
});
el("search").addEventListener("input", (event) => search(event.target.value));
el("reset").onclick = () => { state.past = []; search(""); zoom(0, false); };
el("back").onclick = back;
el("flip").onclick = () => { state.flipped = !state.flipped; draw(); graph.scrollTop = state.flipped ? graph.scrollHeight : 0; show(); };
el("theme").onclick = toggleTheme;
el("functions").onclick = toggleList;
el("normalize").onclick = () => {
  state.normalized = !state.normalized;
  el("normalize").setAttribute("aria-pressed", String(state.normalized));
  remeasure();
};
el("keys").onclick = () => el("help").showModal();
el("help").onclick = () => el("help").close();
el("type").append(...data.types.slice(0, compared || data.types.length).map(([type, unit], i) => new Option(unit ? `${type} (${unit})` : type, i, i === data.type, i === data.type)));
el("type").onchange = (event) => { state.type = Number(event.target.value); remeasure(); };
addEventListener("resize", () => { draw(); list(); });
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
  else if (event.key === "Enter") zoom(Math.max(0, state.current));
  else if (event.key === "Backspace") { event.preventDefault(); back(); }
  else if (event.key === "i") el("flip").click();
  else if (event.key === "t") toggleTheme();
  else if (event.key === "l") toggleList();
  else if (event.key === "n" && compared) el("normalize").click();
  else if (event.key === "?") el("help").showModal();
});
restore();
el("type").value = state.type;
