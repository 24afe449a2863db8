// A headless browser, and what the page is shown of.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const root = new URL("../../../", import.meta.url).pathname;
export const binary = process.env.WATERMASTER ?? join(root, "target/quick/watermaster");

export async function browser() {
  const path = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
  if (path === undefined) throw new Error("there is no chromium; install it (apt-get install chromium)");
  return chromium.launch({ executablePath: path, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
}

/** A folder that goes away with the process. */
export function folder() {
  const made = mkdtempSync(join(tmpdir(), "watermaster-page-"));
  process.on("exit", () => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** The page of a scenario's runs, as `run --open` writes it; no browser is found to open it. */
export function scenario(into, name) {
  const ran = spawnSync(binary, ["run", join(root, "scenarios", name), "--open", "--out", join(into, "run")], { env: { PATH: "/nonexistent" }, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(ran.stderr);
  return `file://${join(into, "run/page.html")}`;
}

const CONFIG = `
state = "state"
[listen]
socket = "controller.sock"
[policy]
name = "smsf"
[control]
grace = "1 h"
[recorder]
directory = "records"
[topology]
kind = "custom"
hosts = ["h1", "h2", "h3", "h4"]
switches = ["leaf1", "leaf2", "spine1", "spine2"]
link = [
  { from = "h1", to = "leaf1", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "h2", to = "leaf1", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "h3", to = "leaf2", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "h4", to = "leaf2", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "leaf1", to = "spine1", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "leaf1", to = "spine2", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "leaf2", to = "spine1", capacity = "1 Gbit/s", delay = "10 us" },
  { from = "leaf2", to = "spine2", capacity = "1 Gbit/s", delay = "10 us" },
]
${[1, 2, 3, 4].map((n) => `[[host]]\nname = "h${n}"\naddresses = ["10.0.0.${n}"]\n`).join("")}`;

/** A process that a line of its standard output or error says is ready. */
async function started(args, ready) {
  const child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"] });
  process.on("exit", () => child.kill());
  const said = await new Promise((resolve, reject) => {
    let text = "";
    const hear = (part) => {
      text += part;
      const found = ready.exec(text);
      if (found !== null) resolve(found[0]);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", () => reject(new Error(`watermaster ${args[0]}: ${text}`)));
  });
  return { child, said };
}

/** A controller on a socket of its own, and the page that is served beside it. */
export async function controller(into) {
  const config = join(into, "controller.toml");
  writeFileSync(config, CONFIG);
  const socket = join(into, "controller.sock");
  const begin = async () => (await started(["controller", "--config", config], /controller ready/)).child;
  let daemon = await begin();
  const page = await started(["page", "--controller", `unix:${socket}`], /http:\/\/\S+\//);
  const stop = async () => {
    const gone = new Promise((resolve) => daemon.on("exit", resolve));
    daemon.kill("SIGTERM");
    await gone;
  };
  const restart = async () => {
    await stop();
    daemon = await begin();
  };
  return { url: page.said, stop, restart, declare: (application, all) => declare(socket, application, all) };
}

export async function replay(file) {
  return (await started(["replay", file, "--serve"], /http:\/\/\S+\//)).said;
}

function declare(socketPath, application, all) {
  return new Promise((resolve, reject) => {
    const path = `/v1/applications/${encodeURIComponent(application)}/declarations`;
    const asked = request({ socketPath, path, method: "POST" }, (answer) => {
      let text = "";
      answer.on("data", (part) => (text += part));
      answer.on("end", () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(text))));
    });
    asked.on("error", reject);
    asked.end(JSON.stringify(all));
  });
}

/** What the status of an answer is, whatever its headers say of who asks. */
export function status(url, headers = {}, method = "GET") {
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers, method }, (answer) => {
      answer.resume();
      resolve({ status: answer.statusCode, headers: answer.headers });
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** Declarations of a shuffle. */
export function shuffle(job, from, to, flows, bytes, port) {
  const all = [{ type: "job_start", job }];
  for (let number = 0; number < flows; number++) {
    all.push({
      type: "flow_request", job, flow: `map-${number}`, bytes,
      connection: { source: `10.0.0.${from}:${port + number}`, destination: `10.0.0.${to}:5001` },
    });
  }
  return all;
}
