// The page in a real browser: what it shows, that it can be used without a mouse, and that nothing of others' runs.
// Waits for conditions; a condition that never holds fails by playwright's patience.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { browser, controller, folder, replay, scenario, shuffle, status } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const at = await browser();
const into = folder();
let failed = 0;

async function test(name, run) {
  try {
    await run();
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}

/** A page that fails its test when a script fails or something is refused. */
async function open(url, options = {}) {
  const context = await at.newContext(options);
  const page = await context.newPage();
  page.wrong = [];
  page.on("pageerror", (error) => page.wrong.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#instant").textContent !== "");
  return page;
}

/** Waits for an event of the timeline, of which only the rows in sight are made. */
async function told(page, what) {
  await page.waitForFunction((what) => {
    const view = document.querySelector("#happenings .view");
    const end = view.scrollHeight - view.clientHeight;
    view.scrollTop = view.scrollTop >= end ? 0 : view.scrollTop + view.clientHeight;
    return view.innerText.includes(what);
  }, what);
}

async function accessible(page) {
  // The tool is put in beside the page's policy, not by it.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const said = found.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  assert.deepEqual(said, []);
}

const evil = "<img src=x onerror=globalThis.owned=1>";
const live = await controller(into);
await live.declare("wordcount", [...shuffle("job_1", 1, 3, 4, 50_000_000, 40000), { type: "job_terms", job: "job_1", deadline_ms: 3_600_000 }]);
await live.declare("backup", shuffle(evil, 2, 3, 2, 5_000_000, 41000));

await test("live: network, applications, flows and their terms", async () => {
  const page = await open(live.url);
  await page.waitForFunction(() => document.querySelectorAll("#applications li").length === 2);
  assert.equal(await page.locator("#network line").count(), 16);
  assert.equal(await page.locator("#flows .rows .row").count(), 6);
  assert.match(await page.locator("#objectives").innerText(), /wordcount \/ job_1.*ahead/s);
  assert.match(await page.locator("#flows").innerText(), /50\.0 MB/);
  await live.declare("wordcount", [{ type: "job_complete", job: "job_1" }]);
  await page.waitForFunction(() => /job wordcount\/job_1 has ended; its deadline is met/.test(document.querySelector("#happenings").innerText));
  assert.match(await page.locator("#objectives").innerText(), /met/);
  assert.deepEqual(page.wrong, []);
});

await test("live: a link without limits has none, not 0 bit/s", async () => {
  const page = await open(live.url);
  await page.waitForSelector("#links .rows button");
  const said = await page.evaluate(() => [...document.querySelectorAll("#links .rows button")].map((button) => {
    button.click();
    return document.querySelector("#chosen").textContent;
  }));
  assert.ok(said.some((text) => text.endsWith("flows, no limits.")), said.join("\n"));
  assert.ok(!said.some((text) => text.includes("given 0 bit/s")), said.join("\n"));
});

await test("live: what others say is text", async () => {
  const page = await open(live.url);
  await page.waitForFunction(() => document.querySelectorAll("#flows .row button").length >= 2);
  assert.ok((await page.locator("#flows").innerText()).includes(evil));
  assert.equal(await page.evaluate(() => globalThis.owned), undefined);
  assert.equal(await page.locator("main img").count(), 0);
});

await test("live: a flow is explained from the keyboard, and the focus comes back", async () => {
  const page = await open(live.url);
  await page.waitForSelector("#flows .row button");
  await page.locator("#flows .row button").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("#reasons dt");
  assert.match(await page.locator("#reasons").innerText(), /Why\n.+\n?By/s);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#explain").evaluate((dialog) => dialog.open), false);
  assert.ok(await page.evaluate(() => document.activeElement.closest("#flows") !== null));
});

await test("live: what was seen stays where another controller decides", async () => {
  const page = await open(live.url);
  await page.waitForFunction(() => document.querySelectorAll("#flows .row button").length >= 2);
  await live.restart();
  await page.waitForFunction(() => /Epoch\s+2/.test(document.querySelector("#about").innerText));
  for (const what of ["epoch 2 decides, after 1: policy smsf", "the page sees policy smsf"]) await told(page, what);
  await page.locator("#slider").focus();
  await page.keyboard.press("Home");
  assert.match(await page.locator("#about").innerText(), /Epoch\s+1/);
  assert.ok((await page.locator("#flows .row button").count()) >= 2);
});

await test("live: only who has the key reads, by this address and from no other site", async () => {
  const port = new URL(live.url).port;
  const here = { host: `127.0.0.1:${port}` };
  assert.equal((await status(live.url, here)).status, 200);
  assert.equal((await status(live.url.replace(/[0-9a-f]{32}/, "0".repeat(32)), here)).status, 403);
  assert.equal((await status(`http://127.0.0.1:${port}/v1/status`, here)).status, 403);
  assert.equal((await status(`${live.url}v1/status`, { host: `rebound.example:${port}` })).status, 403);
  assert.equal((await status(`${live.url}v1/status`, { ...here, origin: "http://other.example" })).status, 403);
  assert.equal((await status(`${live.url}v1/status`, { ...here, "sec-fetch-site": "cross-site" })).status, 403);
  assert.equal((await status(`${live.url}v1/status`, here, "POST")).status, 405);
  assert.equal((await status(`${live.url}metrics`, here)).status, 404);
  const answer = await status(live.url, here);
  assert.match(answer.headers["content-security-policy"], /^default-src 'none'; script-src 'sha256-/);
  assert.equal(answer.headers["access-control-allow-origin"], undefined);
});

const file = scenario(into, "phurti/figure-6-2.toml");

await test("scenario: the slider moves through time, and policies can be compared", async () => {
  const page = await open(file);
  const before = await page.locator("#instant").innerText();
  await page.locator("#slider").focus();
  await page.keyboard.press("End");
  assert.notEqual(await page.locator("#instant").innerText(), before);
  await page.keyboard.press("Home");
  assert.match(await page.locator("#instant").innerText(), /^0\.00 s|^0 s/);
  const policies = await page.locator("#run option").count();
  assert.ok(policies > 1);
  await page.selectOption("#run", String(policies - 1));
  const chosen = await page.locator("#run option").last().innerText();
  assert.match(await page.locator("#about").innerText(), new RegExp(`Policy\\s+${chosen}`));
  assert.ok((await page.locator("#results tr").count()) > 3);
  assert.deepEqual(page.wrong, []);
});

await test("scenario: the file asks nobody", async () => {
  const context = await at.newContext();
  const page = await context.newPage();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.goto(file);
  await page.waitForFunction(() => document.querySelector("#instant").textContent !== "");
  assert.deepEqual(asked.filter((url) => url !== file && !url.startsWith("data:")), []);
});

await test("recording: what was decided, and why", async () => {
  await live.stop();
  const first = readdirSync(join(into, "records")).sort()[0];
  const page = await open(await replay(join(into, "records", first)));
  await page.locator("#slider").focus();
  await page.keyboard.press("End");
  assert.match(await page.locator("#happenings").innerText(), /job job_1 is complete/);
  assert.equal(await page.locator("#badge").innerText(), "recording");
  await page.locator("#flows .row button").first().click();
  await page.waitForSelector("#reasons dt");
  assert.deepEqual(page.wrong, []);
});

for (const [name, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }]]) {
  await test(`accessible: ${name}`, async () => {
    const page = await open(file, options);
    await accessible(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `it is ${wide} pixels wider than the window`);
    await page.locator("#flows .row button").first().click();
    await page.waitForSelector("#reasons dt");
    await accessible(page);
  });
}

await at.close();
console.log(failed === 0 ? "the page is well" : `${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
