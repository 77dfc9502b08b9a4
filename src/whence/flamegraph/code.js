// The pane with the source lines and instructions of a function (the object in #code-data: whence.profiles.page_code).
const code = JSON.parse(document.getElementById("code-data").textContent); // null without any
const CODE_ROW = 18; // pixels
const CODE_MORE = 12; // rows drawn above and below the visible ones
const LINES_BEFORE = 4; // shown above the first line of a function
const FILES_ASKED = 20; // of lines that are inlined, for one function
const view = { open: false, closed: false, frame: -1, tab: "source", chosen: 0, rows: [], number: 0, current: -1 };
const sourceTexts = new Map(); // by file: { lines, origin } or { error }
const instructionsOf = new Map(); // by function: { rows } or { error }

// A question to the page that contains this one, which asks its server.
const waitingFor = new Map();
let questions = 0;
function ask(path, body) {
  return new Promise((resolve) => {
    waitingFor.set(++questions, resolve);
    window.parent.postMessage({ whence: path, id: questions, body }, "*");
  });
}
addEventListener("message", (event) => {
  if (event.source !== window.parent || !waitingFor.has(event.data?.id)) return;
  waitingFor.get(event.data.id)(event.data.answer ?? {});
  waitingFor.delete(event.data.id);
});

const hex = (number) => `0x${number.toString(16)}`;
const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

function sourceText(file) {
  if (!sourceTexts.has(file) && code.texts[file]) {
    const { origin, verified, text } = code.texts[file];
    sourceTexts.set(file, { lines: text.split("\n"), origin: verified ? `${origin}, MD5 matches` : origin });
  }
  return sourceTexts.get(file);
}

// Ask the server for a file; `place` is an address in a function that is in it.
async function fetchSource(file, place) {
  if (!code.server || !place || sourceText(file)) return;
  sourceTexts.set(file, { error: "loading" });
  const [debugName, debugId] = code.libs[place[0]];
  const answer = await ask("source/v1", { debugName, debugId, moduleOffset: hex(place[1]), file: code.files[file] });
  if (typeof answer.source === "string") sourceTexts.set(file, { lines: answer.source.split("\n"), origin: "the server" });
  else sourceTexts.set(file, { error: answer.error ?? "the server did not answer" });
}

const listingOf = (frame) => code.listings[(code.source[frame] ?? 0) - 1];
const functionsOf = (frame) => code.code[frame] ?? [];

// The rows of a listing: every line of the file if its text is known, else those with costs. Lines of inlined calls
// follow the line of their call.
function sourceRows(listing, type) {
  const packed = listing.rows[type];
  const columns = {};
  for (const name of ["line", "depth", "file", "name", "self", "total"]) columns[name] = packed ? unpack(packed[name]) : [];
  const at = new Map(); // rows below each line of the file
  let current = -1;
  const costs = [];
  for (let index = 0; index < columns.line.length; index++) {
    const row = { line: columns.line[index], depth: columns.depth[index], self: columns.self[index], total: columns.total[index], file: columns.file[index], name: columns.name[index] };
    const text = sourceText(row.file)?.lines?.[row.line - 1];
    row.text = row.depth ? `${code.names[row.name]} ${baseName(code.files[row.file])}:${row.line || "?"}${text === undefined ? "" : ` | ${text.trim()}`}` : text;
    costs.push(row);
    if (!row.depth) current = row.line;
    if (!at.has(current)) at.set(current, []);
    at.get(current).push(row);
  }
  const lines = sourceText(listing.file)?.lines;
  if (!lines) return costs;
  const rows = [...(at.get(0) ?? [])];
  lines.forEach((text, index) => {
    const found = at.get(index + 1);
    if (found) rows.push(...found);
    else rows.push({ line: index + 1, depth: 0, self: 0, total: 0, text });
  });
  for (const [line, found] of at) if (line > lines.length) rows.push(...found);
  return rows;
}

// Ask the server for the instructions of a function.
async function fetchInstructions(number) {
  const one = code.assembly[number];
  if (!code.server || instructionsOf.has(number)) return;
  instructionsOf.set(number, { error: "loading" });
  if (one.lib < 0) {
    instructionsOf.set(number, { error: "the file has no build-id" });
    return;
  }
  const [debugName, debugId] = code.libs[one.lib];
  const answer = await ask("asm/v1", { debugName, debugId, startAddress: one.start, size: one.size, frames: true });
  if (!Array.isArray(answer.instructions)) {
    instructionsOf.set(number, { error: answer.error ?? "the server did not answer" });
    return;
  }
  const chains = (answer.chains ?? []).map((chain) => chain.map(([name, file, line]) => [name, file, line]));
  instructionsOf.set(number, { rows: answer.instructions.map(([offset, text, chain]) => ({ offset, text, chain: chains[chain] ?? [] })), vaddr: answer.vaddr });
}

function instructions(number) {
  const one = code.assembly[number];
  if (!instructionsOf.has(number) && one.rows) {
    const [at, text, chain] = [one.rows.at, one.rows.text, one.rows.chain].map(unpack);
    instructionsOf.set(number, { rows: Array.from(at, (offset, index) => ({
      offset, text: code.instructions[text[index]],
      chain: code.chains[chain[index]].map(([name, file, line]) => [code.names[name], code.files[file], line]),
    })) });
  }
  return instructionsOf.get(number) ?? { error: one.note ?? "no instructions" };
}

// Instructions below the lines that they belong to; lines of inlined calls are indented.
function instructionRows(number, type) {
  const one = code.assembly[number];
  const { rows: found } = instructions(number);
  if (!found) return [];
  const costs = new Map();
  const [at, values] = [unpack(one.costs[type]?.at ?? ""), unpack(one.costs[type]?.self ?? "")];
  at.forEach((offset, index) => costs.set(offset, values[index]));
  const start = BigInt(instructions(number).vaddr ?? one.vaddr ?? one.start);
  const rows = [];
  let previous = [];
  found.forEach(({ offset, text, chain }, index) => {
    let same = 0;
    while (same < chain.length && same < previous.length && chain[same].every((part, k) => part === previous[same][k])) same++;
    if (chain.length < previous.length) same = Math.min(same, chain.length - 1);
    for (let depth = Math.max(0, same); depth < chain.length; depth++) {
      const [name, file, line] = chain[depth];
      if (!depth && !file) continue;
      const source = sourceText(code.files.indexOf(file))?.lines?.[line - 1];
      rows.push({ depth, mark: true, text: `${depth ? `${name} ` : ""}${baseName(file)}:${line || "?"}${source === undefined ? "" : ` | ${source.trim()}`}` });
    }
    previous = chain;
    const end = found[index + 1]?.offset ?? offset + 1; // a sample in the middle of an instruction is of this one
    let self = 0;
    for (let byte = offset; byte < end && byte < offset + 16; byte++) self += costs.get(byte) ?? 0;
    rows.push({ address: (start + BigInt(offset)).toString(16), depth: 0, self, text });
  });
  return rows;
}

// Show the code of a node's function.
function showCode(node) {
  if (!code || node <= 0 || isLevel(frameOf[node])) return;
  view.open = true;
  if (view.frame !== frameOf[node]) Object.assign(view, { frame: frameOf[node], chosen: 0, current: -1 });
  renderCode(true);
}

function toggleCode() {
  if (!code) return;
  if (view.open) closeCode();
  else {
    view.closed = false;
    showCode(Math.max(state.current, state.zoom));
    if (!view.open) {
      view.open = true;
      renderCode(true);
    }
  }
}

function closeCode() {
  view.open = false;
  view.closed = true;
  renderCode(false);
  graph.focus();
}

// A click on a frame shows its code, unless the pane was closed.
function clickedCode(node) {
  if (!view.closed) showCode(node);
}

function chooseTab(tab) {
  view.tab = tab;
  view.current = -1;
  renderCode(true);
}

// Draw the pane; with `move`, scroll to the function.
function renderCode(move) {
  const changes = el("code").hidden === view.open;
  el("code").hidden = !view.open;
  el("code-toggle").setAttribute("aria-pressed", String(view.open));
  el("middle").classList.toggle("coded", view.open);
  if (changes) draw();
  if (!view.open) return;
  for (const tab of ["source", "assembly"]) {
    el(`tab-${tab}`).setAttribute("aria-selected", String(view.tab === tab));
    el(`tab-${tab}`).tabIndex = view.tab === tab ? 0 : -1;
  }
  el("code-rows").setAttribute("aria-labelledby", `tab-${view.tab}`);
  const known = view.frame >= 0;
  const listing = known ? listingOf(view.frame) : undefined;
  const functions = known ? functionsOf(view.frame) : [];
  const type = code.types.indexOf(state.type);
  const number = ++view.number;
  const again = () => { if (number === view.number && view.open) renderCode(move); };
  el("code-name").textContent = known ? nameOf(view.frame) : "Click a frame to see its code";
  el("code-name").title = el("code-name").textContent;
  const choice = el("code-function");
  choice.hidden = view.tab !== "assembly" || functions.length < 2;
  choice.replaceChildren(...functions.map((each, index) => new Option(code.names[code.assembly[each].name], index, false, index === view.chosen)));
  let note = "";
  if (!known) view.rows = [];
  else if (view.tab === "source") {
    view.rows = listing ? sourceRows(listing, type) : [];
    if (!listing) note = code.listings.length ? "This function has no lines here." : "This page has no sources: --embed-source embeds them.";
    else {
      const place = `${code.files[listing.file] || "an unknown file"}${listing.line ? `:${listing.line}` : ""}`;
      const source = sourceText(listing.file);
      note = source?.lines ? `${place}, from ${source.origin}` : `${place}: ${source?.error ?? "no source, only the lines with costs"}`;
      if (code.server) wanted(listing, type).then((fetched) => fetched && again());
    }
  } else {
    const chosen = functions[view.chosen];
    view.rows = chosen === undefined ? [] : instructionRows(chosen, type);
    if (chosen === undefined) note = code.assembly.length ? "No sample is in this function's code itself." : "This page has no instructions: --embed-code embeds them.";
    else {
      const { error } = instructions(chosen);
      note = error ? error : `${code.names[code.assembly[chosen].name]}: the cost of each address, as recorded`;
      if (code.server && !instructionsOf.has(chosen)) fetchInstructions(chosen).then(again);
    }
  }
  if (known && type < 0) note += "; no costs of this sample type";
  else if (state.range || state.zoom) note += "; of the whole profile";
  el("code-note").textContent = [note, ...code.notes].join(" · ");
  el("code-rows").setAttribute("aria-rowcount", view.rows.length);
  if (move) moveTo(firstRow(listing));
  drawRows();
}

// Fetch the files of a listing; return true if there is a new one.
async function wanted(listing, type) {
  const files = new Map([[listing.file, listing.place]]);
  const packed = listing.rows[type];
  if (packed) {
    const [names, paths] = [unpack(packed.name), unpack(packed.file)];
    for (let index = 0; index < names.length && files.size < FILES_ASKED; index++) {
      if (!files.has(paths[index])) files.set(paths[index], placeOf(names[index], paths[index]));
    }
  }
  const missing = [...files].filter(([file, place]) => place && !sourceText(file));
  await Promise.all(missing.map(([file, place]) => fetchSource(file, place)));
  return missing.length > 0;
}

let places = null;
function placeOf(name, file) {
  places ??= new Map(code.listings.map((each) => [`${each.name} ${each.file}`, each.place]));
  return places.get(`${name} ${file}`);
}

// The row to begin with: the declaration, or the first line with a cost.
function firstRow(listing) {
  const hot = view.rows.findIndex((row) => row.self || row.total);
  if (view.tab !== "source" || !listing) return hot;
  const declared = view.rows.findIndex((row) => !row.depth && row.line === listing.line);
  return declared >= 0 && (hot < 0 || hot - declared < 40) ? declared : hot;
}

function moveTo(row) {
  el("code-rows").scrollTop = Math.max(0, row - LINES_BEFORE) * CODE_ROW;
}

// Go to the next line with a cost, or to the previous one.
function nextHot(step) {
  if (!view.open || !view.rows.length) return;
  let row = view.current;
  if (row < 0) row = Math.floor(el("code-rows").scrollTop / CODE_ROW) - (step > 0 ? 1 : -LINES_BEFORE - 1);
  for (row += step; row >= 0 && row < view.rows.length; row += step) {
    if (!view.rows[row].self && !view.rows[row].total) continue;
    view.current = row;
    moveTo(row);
    drawRows();
    return;
  }
}

function codeCell(kind, text) {
  const cell = document.createElement("span");
  cell.className = kind;
  cell.setAttribute("role", "cell");
  cell.textContent = text;
  return cell;
}

// Make elements for the visible rows.
function drawRows() {
  const panel = el("code-rows");
  const from = Math.max(0, Math.floor(panel.scrollTop / CODE_ROW) - CODE_MORE);
  const to = Math.min(view.rows.length, Math.ceil((panel.scrollTop + panel.clientHeight) / CODE_ROW) + CODE_MORE);
  const whole = grown?.[0] || 1;
  const fragment = document.createDocumentFragment();
  for (let index = from; index < to; index++) {
    const row = view.rows[index];
    const line = document.createElement("div");
    line.className = `row${row.mark ? " mark" : ""}${row.depth && !row.mark ? " inlined" : ""}${index === view.current ? " current" : ""}`;
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", index + 1);
    line.style.top = `${index * CODE_ROW}px`;
    const heat = Math.min(100, (100 * Math.abs(row.self || row.total || 0)) / whole);
    if (heat) line.style.setProperty("--heat", `${Math.max(6, Math.round(70 * Math.sqrt(heat / 100)))}%`);
    line.append(codeCell("cost", row.self ? amount(row.self) : ""));
    if (view.tab === "source") line.append(codeCell("cost", row.total ? amount(row.total) : ""), codeCell("number", row.depth ? "" : row.line || "?"));
    else line.append(codeCell("address", row.address ?? ""));
    const text = codeCell("text", row.text ?? "");
    if (row.depth) text.style.paddingLeft = `${2 * row.depth}ch`;
    line.append(text);
    fragment.append(line);
  }
  const floor = document.createElement("div");
  floor.style.height = `${view.rows.length * CODE_ROW}px`;
  panel.replaceChildren(fragment, floor);
}

// Connect the pane's buttons.
function prepareCode() {
  el("code-toggle").hidden = !code;
  if (!code) return;
  if (!code.server && !code.listings.length) view.tab = "assembly";
  el("code-toggle").onclick = toggleCode;
  el("code-close").onclick = closeCode;
  el("code-function").onchange = (event) => {
    view.chosen = Number(event.target.value);
    renderCode(true);
  };
  for (const tab of ["source", "assembly"]) el(`tab-${tab}`).onclick = () => chooseTab(tab);
  el("code-tabs").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    chooseTab(view.tab === "source" ? "assembly" : "source");
    el(`tab-${view.tab}`).focus();
  });
  el("code-rows").addEventListener("scroll", drawRows);
  el("code-rows").addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) event.stopPropagation(); // scrolls
  });
  el("code").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    closeCode();
  });
}

