// Drop areas for files, and plots of the server's health.

const statusLine = (kind) => document.querySelector(`[data-status="${kind}"]`);

async function answerOf(response) {
  try {
    return await response.json();
  } catch {
    return { error: `the server responded with status ${response.status}` };
  }
}

async function upload(files) {
  for (const file of files) {
    const line = document.createElement("li");
    line.textContent = `${file.name}: uploading`;
    statusLine("upload").append(line);
    try {
      const response = await fetch(`/upload?name=${encodeURIComponent(file.name)}`, { method: "PUT", body: file });
      const answer = await answerOf(response);
      line.textContent = response.ok
        ? `${file.name}: ${answer.outcome} (build-id ${answer.build_id}): ${answer.why}`
        : `${file.name}: ${answer.error}`;
    } catch (error) {
      line.textContent = `${file.name}: ${error.message}`;
    }
  }
}

async function profile(files) {
  const [file] = files;
  if (!file) return;
  const line = statusLine("profile");
  const frame = document.getElementById("flame");
  line.textContent = `${file.name}: processing`;
  frame.hidden = true;
  try {
    const response = await fetch("/profile?format=flamegraph", { method: "POST", body: file });
    if (!response.ok) {
      line.textContent = `${file.name}: ${(await answerOf(response)).error}`;
      return;
    }
    const named = response.headers.get("x-whence-named");
    const all = response.headers.get("x-whence-locations");
    line.textContent = `${file.name}: ${named} of ${all} addresses named`;
    frame.srcdoc = await response.text();
    frame.hidden = false;
  } catch (error) {
    line.textContent = `${file.name}: ${error.message}`;
  }
}

// The flame graph, which is confined, asks for source files and instructions.
const ASKED = ["source/v1", "asm/v1"];
addEventListener("message", async (event) => {
  const frame = document.getElementById("flame");
  const { whence: path, id, body } = event.data ?? {};
  if (!frame || event.source !== frame.contentWindow || !ASKED.includes(path)) return;
  let answer;
  try {
    const response = await fetch(`/${path}`, { method: "POST", body: JSON.stringify(body) });
    answer = await answerOf(response);
    if (!response.ok) answer = { error: answer.error ?? answer.title ?? `the server responded with status ${response.status}` };
  } catch (error) {
    answer = { error: error.message };
  }
  frame.contentWindow.postMessage({ id, answer }, "*"); // its origin is opaque
});

for (const area of document.querySelectorAll("[data-drop]")) {
  const handle = area.dataset.drop === "upload" ? upload : profile;
  const input = area.querySelector("input");
  input.addEventListener("change", () => handle([...input.files]));
  area.addEventListener("dragover", (event) => {
    event.preventDefault();
    area.classList.add("over");
  });
  area.addEventListener("dragleave", () => area.classList.remove("over"));
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    handle([...event.dataTransfer.files]);
  });
}

// Health: sums of the counters in /metrics

const EVERY = 5000;
const POINTS = 60;
const SVG = "http://www.w3.org/2000/svg";

function sum(text, name) {
  let total = 0;
  for (const line of text.split("\n")) {
    if (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) total += Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return total;
}

function plot(title, unit) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  svg.setAttribute("viewBox", `0 0 ${POINTS} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  figure.append(caption, svg);
  document.getElementById("plots").append(figure);
  const values = [];
  caption.textContent = title;
  return (value) => {
    values.push(value);
    if (values.length > POINTS) values.shift();
    const most = Math.max(...values, 1e-9);
    caption.textContent = `${title}: ${unit ? value.toFixed(1) : value} ${unit}`;
    line.setAttribute("points", values.map((value, index) => `${index},${19 - (18 * value) / most}`).join(" "));
  };
}

if (document.getElementById("plots")) {
  const requests = plot("requests", "per second");
  const duration = plot("mean duration", "ms");
  const archives = plot("open archives", "");
  let before = null;
  const update = async () => {
    try {
      const text = await (await fetch("/metrics")).text();
      const now = {
        time: performance.now(),
        count: sum(text, "http_responses_duration_milliseconds_count"),
        spent: sum(text, "http_responses_duration_milliseconds_sum"),
      };
      archives(sum(text, "whence_open_archives"));
      if (before) {
        const count = now.count - before.count;
        requests((1000 * count) / (now.time - before.time));
        duration(count ? (now.spent - before.spent) / count : 0);
      }
      before = now;
    } catch {
      before = null;
    }
  };
  update();
  setInterval(update, EVERY);
}
