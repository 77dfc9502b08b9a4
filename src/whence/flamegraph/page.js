// The flame graph's page: the tree in #data (see data.py); only visible frames are drawn.
const data = JSON.parse(document.getElementById("data").textContent);
const el = (id) => document.getElementById(id);
const graph = el("graph");
const ROW = 20; // pixels from one row to the next
const BOLD = 0.9; // width of a plain text, to that of a bold one
const PADDING = 10; // pixels of a frame around its name
const MORE_ROWS = 20; // drawn above and below the visible rows, for scrolling
const LIST_ROWS = 200; // functions listed at first
const LEGEND_ITEMS = 40;
const TEXT_ROWS = 3; // of a name in the list of functions
const MOST_NODES = 3_000_000; // of a graph in order of time, whose frames are not merged
const BAR = 4; // pixels of a bar of the histogram
const GROUPINGS = ["none", "process", "thread", "binary"];
const ORDERS = ["name", "size", "time"];

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
const frameCount = frames.name.length;

// Add the frames of a level above the functions: processes, threads or binaries. Return the first one's number.
function addLevel(labels) {
  const first = frames.name.length;
  for (const column in frames) {
    const longer = new Float64Array(first + labels.length);
    longer.set(frames[column]);
    frames[column] = longer;
  }
  labels.forEach((label, index) => (frames.name[first + index] = data.names.push(label) - 1));
  return first;
}
const noFile = data.files.push("") - 1;
const noBinary = data.binaries.push("") - 1;
const firstProcess = addLevel(data.processes);
const firstThread = addLevel(data.threads);
const firstBinary = addLevel(data.binaries.map((text) => text || "no binary"));
frames.file.fill(noFile, frameCount);
frames.binary.fill(noBinary, frameCount);
const isLevel = (frame) => frame >= frameCount;

// The merged tree of all stacks, in depth-first order; `up` counts levels from the previous node to the parent.
const merged = { frame: unpack(data.frame), up: unpack(data.up) };
merged.parent = new Uint32Array(merged.frame.length);
merged.depth = new Uint16Array(merged.frame.length);
for (let i = 1; i < merged.frame.length; i++) {
  let above = i - 1;
  for (let levels = merged.up[i]; levels > 0; levels--) above = merged.parent[above];
  merged.parent[i] = above;
  merged.depth[i] = merged.depth[above] + 1;
}
const line = unpack(data.line);
const lineAt = new Uint32Array(merged.frame.length + 1);
unpack(data.count).forEach((lines, i) => (lineAt[i + 1] = lineAt[i] + lines));

// Entries: values that end in a node of the merged tree, by thread and step of time.
const self = data.self.map(unpack);
const endOf = unpack(data.at);
for (let e = 1; e < endOf.length; e++) endOf[e] += endOf[e - 1];
const threadOf = data.thread ? unpack(data.thread) : new Float64Array(endOf.length);
const stepOf = data.step ? unpack(data.step) : new Float64Array(endOf.length);
const processOf = unpack(data.process);
const timed = data.steps > 1;

const nameOf = (frame) => data.names[frames.name[frame]];
const name = (i) => (i === 0 ? "all" : nameOf(frameOf[i]));
const reasonOf = (frame) => (frames.reason[frame] ? data.reasons[frames.reason[frame] - 1] : "");
const reason = (i) => (i === 0 ? "" : reasonOf(frameOf[i]));
const linesOf = (i) => (origin[i] < 0 ? [] : [...line.subarray(lineAt[origin[i]], lineAt[origin[i] + 1])]);
const binaryOf = (frame) => data.binaries[frames.binary[frame]];
const groupOf = (frame) => (frames.group[frame] ? data.groups[frames.group[frame] - 1] : "");
const hue = (group) => ((group - 1) * 137.508 + 40) % 360;
const compared = data.compared; // in a difference the number of types; the types of the base follow them. Else 0
const UNNAMED = "is:unnamed"; // search for frames without a name
const INSIDE = "in:"; // search for frames of an item of the legend

// The graph that is drawn, in depth-first order; a node's subtree is [i, after[i]). Node i is the node origin[i] of the
// merged tree, or -1 for a process, thread or binary. Entry e ends in the node leafOf[e].
let count = 0;
let frameOf, parent, depth, after, origin, leafOf, firstKid, kids;
let entries; // in the order of the graph
let firstEntry; // of each node, an index into entries
let cut = 0; // depth below which frames are left out

// The numbers from `first` to the end.
function counted(first, end) {
  const out = new Uint32Array(end - first);
  for (let index = 0; index < out.length; index++) out[index] = first + index;
  return out;
}

// First index of each number below `limit`.
function starts(numbers, limit) {
  const out = new Uint32Array(limit + 1);
  for (const number of numbers) out[number + 1]++;
  for (let index = 0; index < limit; index++) out[index + 1] += out[index];
  return out;
}

// Sort items by a number of each; equal ones stay in their order.
function sorted(items, numbers, limit) {
  const to = new Uint32Array(limit + 1);
  for (const item of items) to[numbers[item] + 1]++;
  for (let index = 0; index < limit; index++) to[index + 1] += to[index];
  const out = new Uint32Array(items.length);
  for (const item of items) out[to[numbers[item]]++] = item;
  return out;
}

// A number for the levels above an entry's functions; equal levels have equal numbers.
function levelKey(e) {
  if (state.by === "none") return 0;
  if (state.by !== "binary") return state.by === "process" ? processOf[threadOf[e]] : threadOf[e];
  let node = endOf[e];
  while (node && merged.frame[node] === data.smaller) node = merged.parent[node];
  return node ? frames.binary[merged.frame[node]] : noBinary;
}

// These levels: numbers of frames, outermost first.
function levels(key) {
  if (state.by === "none") return [];
  if (state.by === "binary") return [firstBinary + key];
  return state.by === "process" ? [firstProcess + key] : [firstProcess + processOf[key], firstThread + key];
}

// Make the graph: each entry's stack is appended below the part that it shares with the one before.
function build() {
  const level = [];
  const groups = new Map();
  const groupOf = new Uint32Array(endOf.length);
  for (let e = 0; e < endOf.length; e++) {
    const key = levelKey(e);
    if (!groups.has(key)) {
      groups.set(key, level.length);
      level.push(levels(key));
    }
    groupOf[e] = groups.get(key);
  }
  if (level[0]?.length > 1) { // threads of a process side by side
    const order = level.map((_, index) => index).sort((x, y) => level[x][0] - level[y][0] || level[x][1] - level[y][1]);
    const rank = new Uint32Array(order.length);
    order.forEach((index, to) => (rank[index] = to));
    groupOf.forEach((group, e) => (groupOf[e] = rank[group]));
    level.splice(0, level.length, ...order.map((index) => level[index]));
  }
  entries = counted(0, endOf.length);
  if (state.order === "time") entries = sorted(entries, stepOf, data.steps);
  if (level.length > 1) entries = sorted(entries, groupOf, level.length);

  const path = new Uint32Array(0x10000); // the nodes of the last stack, and their numbers in the graph
  const ids = new Uint32Array(0x10000);
  const pending = new Uint32Array(0x10000);
  // Call `add` for each node, with its depth in the graph, and `end` for each entry.
  function walk(deepest, add, end) {
    let group = -1;
    let top = 0;
    let above = 0; // levels above the functions
    for (const e of entries) {
      if (groupOf[e] !== group) {
        const shared = group < 0 || level[group][0] !== level[groupOf[e]][0] ? 0 : 1;
        group = groupOf[e];
        above = level[group].length;
        for (let k = shared; k < above; k++) add(-1, level[group][k], k + 1);
        top = 0;
      }
      let node = endOf[e];
      let size = 0;
      while (node && !(merged.depth[node] <= top && path[merged.depth[node]] === node)) {
        if (merged.depth[node] <= deepest) pending[size++] = node;
        node = merged.parent[node];
      }
      top = node ? merged.depth[node] : 0;
      while (size) {
        node = pending[--size];
        top = merged.depth[node];
        path[top] = node;
        add(node, merged.frame[node], top + above);
      }
      end(e, top + above);
    }
  }
  const sizes = new Uint32Array(0x10000);
  let deepest = 0xffff;
  if (state.order === "time") {
    walk(deepest, (node) => { if (node >= 0) sizes[merged.depth[node]]++; }, () => {});
    let sum = 0;
    deepest = 0;
    while (deepest < 0xfff0 && sum + sizes[deepest + 1] <= MOST_NODES) sum += sizes[++deepest];
  }
  cut = 0;
  let nodes = 1;
  walk(deepest, () => nodes++, (e) => { if (merged.depth[endOf[e]] > deepest) cut = deepest; });
  count = nodes;
  frameOf = new Float64Array(count).fill(-1);
  parent = new Uint32Array(count);
  depth = new Uint16Array(count);
  origin = new Int32Array(count);
  leafOf = new Uint32Array(endOf.length);
  firstEntry = new Uint32Array(count);
  let next = 1;
  let ended = 0;
  walk(deepest, (node, frame, at) => {
    frameOf[next] = frame;
    origin[next] = node;
    depth[next] = at;
    firstEntry[next] = ended;
    parent[next] = ids[at - 1];
    ids[at] = next++;
  }, (e, at) => {
    leafOf[e] = ids[at];
    ended++;
  });
  after = new Uint32Array(count);
  for (let i = count - 1; i >= 0; i--) {
    after[i] = Math.max(after[i], i + 1);
    if (i) after[parent[i]] = Math.max(after[parent[i]], after[i]);
  }
  firstKid = starts(parent.subarray(1), count);
  let rows = counted(1, count);
  if (state.order !== "time") {
    const ranks = new Uint32Array(count);
    for (let i = 1; i < count; i++) ranks[i] = nameRank[frameOf[i]];
    rows = sorted(rows, ranks, nameRank.length);
  }
  const to = firstKid.slice();
  kids = new Uint32Array(rows.length);
  for (const node of rows) kids[to[parent[node]]++] = node;
}

// Ranks of the frames by name; the frame that replaces others is last.
const nameRank = new Uint32Array(frames.name.length);
[...frames.name.keys()].sort((a, b) => {
  if (a === data.smaller || b === data.smaller) return a === data.smaller ? 1 : -1;
  return nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a - b;
}).forEach((frame, rank) => (nameRank[frame] = rank));

// A node's children as they are drawn. Processes, threads and binaries are sorted by size in any order.
function children(i) {
  const all = kids.subarray(firstKid[i], firstKid[i + 1]);
  if (all.length < 2 || !(state.order === "size" || isLevel(frameOf[all[0]]))) return all;
  return all.slice().sort((a, b) => total[b] - total[a] || a - b);
}

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
  if (isLevel(frame)) element.classList.add("level");
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

const state = { by: "none", order: "name", range: null, type: data.type, zoom: 0, current: -1, flipped: false, past: [], hits: null, theme: "", listed: false, sort: "self", up: false, rows: LIST_ROWS, normalized: false };
let total; // width of each node
let grown; // in a difference: new values, and the values of the base
let before;
let news; // values that end in a node: new ones, and those of the base
let bases;
let start; // in order of time: the values before each node

const inRange = (e) => !state.range || (stepOf[e] >= state.range[0] && stepOf[e] <= state.range[1]);
// In a difference both sides are added.
const own = (i) => news[i] + bases[i];
const change = (i) => grown[i] - before[i];
const ownChange = (i) => news[i] - bases[i];

// Values that end in each node; negative values have no width.
function ends(type, factor = 1) {
  const out = new Float64Array(count);
  const values = self[type];
  if (!values) return out;
  for (let e = 0; e < values.length; e++) if (inRange(e)) out[leafOf[e]] += values[e];
  for (let i = 0; i < count; i++) out[i] = Math.max(0, factor * out[i]);
  return out;
}

function sums(values) {
  const out = values.slice();
  for (let i = count - 1; i > 0; i--) out[parent[i]] += out[i];
  return out;
}

function addUp() {
  news = ends(state.type);
  bases = compared ? ends(state.type + compared) : new Float64Array(count);
  grown = sums(news);
  before = compared ? sums(bases) : grown;
  if (compared && state.normalized && grown[0] && before[0]) {
    bases = ends(state.type + compared, grown[0] / before[0]);
    before = sums(bases);
  }
  total = compared ? sums(news.map((value, i) => value + bases[i])) : grown;
  if (state.order !== "time") return;
  const sum = new Float64Array(entries.length + 1);
  entries.forEach((e, index) => (sum[index + 1] = sum[index] + (inRange(e) ? Math.max(0, self[state.type]?.[e] ?? 0) : 0)));
  start = new Float64Array(count);
  for (let i = 0; i < count; i++) start[i] = sum[firstEntry[i]];
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
  const chart = state.order === "time";
  const smallest = (chart ? BAR : 0.6) / Math.max(200, graph.clientWidth);
  const stack = [{ node: state.zoom, left: 0, width: 1 }];
  while (stack.length) {
    const parent = stack.pop();
    out.push({ ...parent, above: false });
    const scale = parent.width / (total[parent.node] || 1);
    let offset = parent.left;
    let narrow = null; // in order of time, the largest of the frames that share the width of a bar stands for all
    for (const child of children(parent.node)) {
      const width = total[child] * scale;
      const left = chart && !isLevel(frameOf[child]) ? parent.left + (start[child] - start[parent.node]) * scale : offset;
      offset += width;
      if (width >= smallest) stack.push({ node: child, left, width });
      else if (chart && width > 0) {
        if (narrow && left < narrow.left + smallest) {
          if (total[child] > total[narrow.node]) narrow.node = child;
        } else {
          narrow = { node: child, left, width: Math.min(smallest, parent.left + parent.width - left) };
          stack.push(narrow);
        }
      }
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
  el("reset").disabled = !state.zoom && !state.hits && !state.range;
  path();
  drawTimes();
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
    if (state.hits) classes.push(state.hits[node] ? "hit" : "off");
    if (node === state.current) classes.push("current");
    box.className = classes.join(" ");
    const pixels = width * wide;
    if (pixels < 24) box.classList.add("thin");
    else {
      const shared = pixels > 200 && node > 0;
      box.append(Object.assign(document.createElement("span"), { textContent: fit(name(node), (pixels - PADDING - (shared ? 60 : 0)) * (isLevel(frameOf[node]) ? BOLD : 1)) }));
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
  const lines = linesOf(node);
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
  state.marked = null;
  hideTip();
  el("found").textContent = "";
  if (text) {
    const good = matching(text);
    const hits = new Uint8Array(count);
    let found = 0;
    const inside = new Uint8Array(count);
    let value = 0;
    for (let i = 1; i < count; i++) {
      const hit = good[frameOf[i]];
      hits[i] = hit;
      found += hit;
      if (hit && !inside[parent[i]]) value += total[i];
      inside[i] = hit || inside[parent[i]];
    }
    state.hits = hits;
    state.marked = inside;
    el("found").textContent = `${found.toLocaleString("en")} found, ${share(value)}`;
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
  const groups = [...sizes.keys()].slice(1).filter((group) => sizes[group] || !state.range).sort((x, y) => sizes[y] - sizes[x]);
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
    if (isLevel(frame)) continue;
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
  drawTimes();
  save();
}

// Show another grouping or order. Numbers of nodes change, so that the zoom ends.
function rearrange() {
  state.zoom = 0;
  state.current = -1;
  state.past = [];
  build();
  remark();
  remeasure();
}

// What the page leaves out.
function remark() {
  el("note").textContent = [
    data.pruned && `Only the ${(merged.frame.filter((frame) => frame !== data.smaller).length - 1).toLocaleString("en")} largest frames are shown; frames named ${nameOf(data.smaller)} replace the others.`,
    (data.depth || cut) && `Calls deeper than ${(cut || data.depth).toLocaleString("en")} frames are left out.`,
  ].filter(Boolean).join(" ");
  el("note").hidden = !el("note").textContent;
}

// Show another type or range of time, or scale the base.
function remeasure() {
  addUp();
  legend();
  list();
  search(el("search").value);
  describe(state.zoom);
  if (view.open) renderCode(false);
}

function toggleList() {
  state.listed = !state.listed;
  list();
  draw();
  save();
}

// The address has the view: #q=search&z=node&t=type&by=thread&order=time&range=10-99&theme=dark&list=1
function save() {
  const part = new URLSearchParams();
  if (el("search").value) part.set("q", el("search").value);
  if (state.zoom) part.set("z", state.zoom);
  if (state.type !== data.type) part.set("t", state.type);
  if (state.by !== usualBy) part.set("by", state.by);
  if (state.order !== "name") part.set("order", state.order);
  if (state.range) part.set("range", state.range.join("-"));
  if (state.theme) part.set("theme", state.theme);
  if (state.listed) part.set("list", 1);
  if (state.normalized) part.set("normalized", 1);
  if (location.protocol === "about:") return; // shown within another page
  history.replaceState(null, "", part.size ? `#${part}` : location.pathname + location.search);
}

function restore() {
  const part = new URLSearchParams(location.hash.slice(1));
  const number = (key, limit, other) => (Number(part.get(key)) < limit && part.has(key) ? Math.max(0, Number(part.get(key)) | 0) : other);
  state.by = groupings.includes(part.get("by")) ? part.get("by") : usualBy;
  state.order = orders.includes(part.get("order")) ? part.get("order") : "name";
  const range = /^(\d{1,9})-(\d{1,9})$/.exec(part.get("range") ?? "");
  if (range && timed) state.range = [Math.min(+range[1], data.steps - 1), Math.min(Math.max(+range[1], +range[2]), data.steps - 1)];
  build();
  remark();
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

// Ways to group and to sort that make a difference for this profile.
const groupings = GROUPINGS.filter((by) => ({
  process: data.processes.length > 1 || data.threads.length > 1,
  thread: data.threads.length > 1,
  binary: new Set(frames.binary.subarray(0, frameCount)).size > 1,
})[by] ?? true);
const usualBy = data.processes.length > 1 ? "process" : "none";
const orders = ORDERS.filter((order) => order !== "time" || timed);
el("by").append(...groupings.map((by) => new Option(by === "none" ? "not grouped" : `by ${by}`, by)));
el("order").append(...orders.map((order) => new Option({ name: "sorted by name", size: "largest first", time: "in order of time" }[order], order)));
el("by").hidden = groupings.length < 2;

function group(by) {
  state.by = el("by").value = by;
  rearrange();
}

function arrange(order) {
  state.order = el("order").value = order;
  rearrange();
}

const following = (items, item) => items[(items.indexOf(item) + 1) % items.length];
el("by").onchange = (event) => group(event.target.value);
el("order").onchange = (event) => arrange(event.target.value);

// The histogram: the values of each step of time; those of the search, else of the zoomed frame, are marked.
function drawTimes() {
  if (!timed) return;
  const canvas = el("bars");
  const wide = canvas.clientWidth;
  const high = canvas.clientHeight;
  const scale = devicePixelRatio || 1;
  canvas.width = wide * scale;
  canvas.height = high * scale;
  const brush = canvas.getContext("2d");
  brush.scale(scale, scale);
  const steps = Math.max(1, Math.ceil((data.steps * BAR) / (wide || 1))); // of a bar
  const bars = Math.ceil(data.steps / steps);
  const all = new Float64Array(bars);
  const some = new Float64Array(bars);
  const marked = state.marked;
  const values = self[state.type] ?? [];
  for (let e = 0; e < values.length; e++) {
    const bar = Math.floor(stepOf[e] / steps);
    const value = Math.max(0, values[e]);
    const leaf = leafOf[e];
    all[bar] += value;
    if (marked ? marked[leaf] : state.zoom && leaf >= state.zoom && leaf < after[state.zoom]) some[bar] += value;
  }
  const most = Math.max(...all) || 1;
  const style = getComputedStyle(document.documentElement);
  const each = (wide * steps) / data.steps;
  for (const [heights, color] of [[all, "--blank"], [some, "--mark"]]) {
    brush.fillStyle = style.getPropertyValue(color);
    heights.forEach((value, bar) => {
      const height = value ? Math.max(1, ((high - 2) * value) / most) : 0;
      brush.fillRect(bar * each, high - height, Math.max(1, each - 1), height);
    });
  }
  const range = state.range;
  el("range").hidden = !range;
  if (range) {
    el("range").style.left = `${(100 * range[0]) / data.steps}%`;
    el("range").style.width = `${(100 * (range[1] + 1 - range[0])) / data.steps}%`;
  }
  const length = data.steps * data.step_ns;
  const text = range ? `${time(range[0])} to ${time(range[1] + 1)}` : `${time(0)} to ${time(data.steps)}`;
  el("span").textContent = range ? `${text}, of ${seconds(length)}` : text;
  el("times").setAttribute("aria-valuetext", text);
}

const seconds = (ns) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(2)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e3).toFixed(0)} µs`);
const time = (step) => (step ? seconds(step * data.step_ns) : "0 s");

function select(range) {
  cancelAnimationFrame(waiting);
  waiting = 0;
  state.range = range;
  remeasure();
}

let waiting = 0; // a frame of animation that shows the range while it is dragged
function selectSoon(range) {
  state.range = range;
  waiting ||= requestAnimationFrame(() => select(state.range));
}

let dragged = -1; // step where the pointer was pressed
function stepAt(event) {
  const { left, width } = el("bars").getBoundingClientRect();
  return Math.min(data.steps - 1, Math.max(0, Math.floor(((event.clientX - left) / (width || 1)) * data.steps)));
}
el("times").hidden = !timed;
el("times").addEventListener("pointerdown", (event) => {
  dragged = stepAt(event);
  try { el("times").setPointerCapture(event.pointerId); } catch { /* a pointer that has gone */ }
});
el("times").addEventListener("pointermove", (event) => {
  if (dragged < 0) return;
  const step = stepAt(event);
  if (step !== dragged) selectSoon([Math.min(dragged, step), Math.max(dragged, step)]);
});
el("times").addEventListener("pointerup", (event) => {
  if (dragged < 0) return;
  const step = stepAt(event);
  select(step === dragged ? null : [Math.min(dragged, step), Math.max(dragged, step)]);
  dragged = -1;
});
el("times").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  event.preventDefault();
  event.stopPropagation();
  const move = Math.max(1, Math.round(data.steps / 50)) * (event.key === "ArrowLeft" ? -1 : 1);
  const limit = (step) => Math.min(data.steps - 1, Math.max(0, step));
  const [from, to] = state.range ?? [0, Math.round(data.steps / 10)];
  if (!state.range) select([from, to]);
  else if (event.shiftKey) select([from, Math.max(from, limit(to + move))]);
  else if (from + move >= 0 && to + move < data.steps) select([from + move, to + move]);
});

const under = (event) => event.target.closest?.(".f")?.dataset.node;
let clicked = null; // position: browsers report a moving pointer when the element under it changes
graph.addEventListener("click", (event) => {
  clicked = [event.clientX, event.clientY];
  if (under(event) === undefined) return;
  zoom(Number(under(event)));
  clickedCode(Number(under(event)));
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
el("reset").onclick = () => {
  state.past = [];
  state.zoom = 0;
  if (state.range) { state.range = null; addUp(); legend(); }
  search("");
  zoom(0, false);
};
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
addEventListener("resize", () => { draw(); list(); if (view.open) drawRows(); });
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
  if (["INPUT", "SELECT"].includes(document.activeElement?.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith("Arrow")) { event.preventDefault(); move(event.key); }
  else if (event.key === "Enter") {
    if (document.activeElement?.closest?.("button, select, [role=tab]")) return;
    zoom(Math.max(0, state.current));
    if (view.open) showCode(Math.max(0, state.current));
  }
  else if (event.key === "Backspace") { event.preventDefault(); back(); }
  else if (event.key === "g") group(following(groupings, state.by));
  else if (event.key === "o") arrange(following(orders, state.order));
  else if (event.key === "i") el("flip").click();
  else if (event.key === "t") toggleTheme();
  else if (event.key === "l") toggleList();
  else if (event.key === "s") toggleCode();
  else if (event.key === "a" && view.open) chooseTab(view.tab === "source" ? "assembly" : "source");
  else if (event.key === "j") nextHot(1);
  else if (event.key === "k") nextHot(-1);
  else if (event.key === "n" && compared) el("normalize").click();
  else if (event.key === "?") el("help").showModal();
});
prepareCode();
restore();
el("type").value = state.type;
el("by").value = state.by;
el("order").value = state.order;
