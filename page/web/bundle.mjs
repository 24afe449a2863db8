// Makes ../page.html of the sources: one file that loads nothing. With --check it says whether that is current.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = (path) => new URL(path, import.meta.url);
const read = (path) => readFileSync(here(path), "utf8");

const made = await build({
  entryPoints: [here("src/main.ts").pathname], bundle: true, minify: true, write: false, format: "iife",
  target: "es2022", legalComments: "none", charset: "utf8",
});
const style = await build({
  stdin: { contents: read("node_modules/uplot/dist/uPlot.min.css") + read("page.css"), loader: "css" },
  minify: true, write: false, charset: "utf8", target: "es2022",
});
const licence = read("node_modules/uplot/LICENSE").trim();
const version = JSON.parse(read("node_modules/uplot/package.json")).version;
// A script's end within the script would end it for HTML as well.
const script = `/* Contains uPlot ${version}.\n${licence.replaceAll("*/", "* /")}\n*/\n${made.outputFiles[0].text.trim().replaceAll("</script", "<\\/script")}`;
const css = style.outputFiles[0].text.trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
// uPlot sets styles through the object model, which a policy doesn't restrict.
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(css)}; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'`;
const page = read("page.html").replace("@POLICY@", () => policy).replace("@STYLE@", () => css).replace("@SCRIPT@", () => script);

const target = here("../page.html");
if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== page) {
    console.error("page/page.html is not what its sources make; run make page");
    process.exit(1);
  }
} else {
  writeFileSync(target, page);
  console.log(`page/page.html: ${Math.round(page.length / 1024)} KiB`);
}
