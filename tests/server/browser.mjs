// Uses the page as a person does, by the keyboard; prints what it saw as JSON.
import { createRequire } from "node:module";
const asked = JSON.parse(process.argv[2]);
const require = createRequire(asked.modules + "/");
const { chromium } = require("playwright-core");
const axe = require("fs").readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: asked.chromium, args: ["--no-sandbox"] });
const [width, height] = asked.size;
const context = await browser.newContext({ viewport: { width, height }, colorScheme: width < 600 ? "dark" : "light", bypassCSP: false });
const page = await context.newPage();
const out = { errors: [], elsewhere: [], violations: [] };
page.on("console", (message) => message.type() === "error" && out.errors.push(message.text()));
page.on("pageerror", (error) => out.errors.push(String(error)));
page.on("request", (request) => {
  if (!/^(data|blob|about):/.test(request.url()) && !request.url().startsWith(asked.url)) out.elsewhere.push(request.url());
});
const check = async () => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { iframes: false }));
  out.violations.push(...found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`));
};
const shot = async (name) => asked.shots && page.screenshot({ path: `${asked.shots}/${name}-${width}.png`, fullPage: true });
await page.goto(asked.url + "/");
// A file from the desktop, let go over an area: the browser's own events with the file in them.
const drop = async (area, path, name) => {
  const bytes = require("fs").readFileSync(path).toString("base64");
  const transfer = await page.evaluateHandle(
    ([text, name]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))], name));
      return transfer;
    },
    [bytes, name],
  );
  for (const event of ["dragenter", "dragover", "drop"]) await page.dispatchEvent(area, event, { dataTransfer: transfer });
};
await drop('[data-drop="upload"]', asked.debug, "program");
await page.waitForFunction(() => /added|:.*error/.test(document.querySelector('[data-status="upload"]').textContent));
out.uploaded = await page.textContent('[data-status="upload"]');
await page.reload();
await drop('[data-drop="profile"]', asked.profile, "cpu.pb.gz");
await page.waitForFunction(() => !document.getElementById("flame").hidden);
out.named = await page.textContent('[data-status="profile"]');
const flame = await (await page.$("#flame")).contentFrame();
await flame.waitForFunction(() => document.body.textContent.includes("sum") || document.querySelector("canvas"));
out.flame = await flame.content();
await flame.locator("#graph").focus();
for (let step = 0; step < 9 && !/^sum/.test(await flame.locator(".f.current").allTextContents()); step++) {
  await flame.locator("#graph").press(step % 2 ? "ArrowRight" : "ArrowDown");
}
await flame.locator("#graph").press("Enter");
await flame.locator("#graph").press("s");
await flame.waitForFunction(() => /twice/.test(document.getElementById("code-rows").textContent));
out.source = await flame.textContent("#code-rows");
out.note = await flame.textContent("#code-note");
await flame.locator("#code-rows").press("a");
await flame.waitForFunction(() => /imul/.test(document.getElementById("code-rows").textContent));
out.instructions = await flame.textContent("#code-rows");
await check();
await shot("index");
await page.setInputFiles('[data-drop="upload"] input', asked.debug);
await page.waitForFunction(() => /same/.test(document.querySelector('[data-status="upload"]').textContent));
await page.focus("#q");
await page.keyboard.type(asked.build_id.slice(0, 6));
await page.keyboard.press("Enter");
await page.waitForSelector(`a[href="/binary/${asked.build_id}"]`);
await page.focus(`a[href="/binary/${asked.build_id}"]`);
await page.keyboard.press("Enter");
await page.waitForSelector("#address");
await page.focus("#address");
await page.keyboard.type(asked.address);
await page.keyboard.press("Enter");
await page.waitForSelector(".chain");
out.chain = await page.textContent(".chain");
await page.focus("#function");
await page.keyboard.type("su");
await page.keyboard.press("Enter");
await page.waitForURL(/function=su/);
out.functions = await page.textContent("section[aria-labelledby=functions]");
await page.getByRole("link", { name: "sum", exact: true }).press("Enter");
await page.waitForSelector(".chain");
out.again = await page.textContent(".chain");
out.wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
await check();
await shot("binary");
console.log(JSON.stringify(out));
await browser.close();
