// Pictures of the page for the documentation: docs/images/page-*.png.

import { browser, folder, scenario } from "./browser.mjs";

const images = process.argv[2] ?? new URL("../../../docs/images/", import.meta.url).pathname;
const at = await browser();
const file = scenario(folder(), "objectives/three-applications.toml");
for (const [name, options, whole] of [
  ["light", { viewport: { width: 1280, height: 1240 } }, false],
  ["dark", { viewport: { width: 1280, height: 1240 }, colorScheme: "dark" }, false],
  ["phone", { viewport: { width: 390, height: 1500 } }, false],
]) {
  const page = await (await at.newContext(options)).newPage();
  await page.goto(file);
  await page.waitForSelector("#network line", { state: "attached" });
  const last = (await page.locator("#run option").count()) - 1;
  await page.selectOption("#run", String(last));
  await page.evaluate(() => document.activeElement?.blur());
  await page.screenshot({ path: `${images}/page-${name}.png`, fullPage: whole });
}
await at.close();
