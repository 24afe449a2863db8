// The page: one for a controller that runs, a recording, and a scenario's result.

import { byId, el, say } from "./dom";
import { Recorded, Result } from "./film";
import type { Recording, Scenario } from "./film";
import { count, rate, seconds, share, size } from "./format";
import { List } from "./list";
import { Live, key } from "./live";
import { verdict } from "./model";
import type { Flow, Happening, Job, Link, Source, View } from "./model";
import { Drawing, load } from "./network";
import { Plot } from "./plot";

const PERIOD = 1000;
/** Steps of the slider. */
const STEPS = 1000;

const data = JSON.parse(byId("data").textContent ?? "null") as Recording | Scenario | null;
const live = data === null ? new Live() : null;
const source: Source = live ?? (data?.kind === "recording" ? new Recorded(data) : new Result(data as Scenario));

let following = source.live;
let now = busiest();
let only = "";
let link: Link | null = null;
let playing: number | undefined;

const slider = byId<HTMLInputElement>("slider");
/** What is shown of a scenario's flows are means over their lives. */
const got = source.kind === "scenario" ? "Mean" : "Got";
const words = ["idle", "below 50 %", "50 to 90 %", "90 % and more", "down"];

const drawing = new Drawing(byId("network"), (pressed) => choose(pressed));
const plot = new Plot(byId("plot"), (time) => look(time));
const links = new List<Link>(byId("links"), [
  { name: "Link", text: (row) => `${row.from} → ${row.to}`, class: "wide", press: choose, label: (row) => `${row.from} → ${row.to}, show its place` },
  { name: source.kind === "scenario" ? "≈ load" : "Load", text: (row) => (row.up ? share(row.measured, row.capacity) : "down"), class: "number short", mark: (row) => `load-${load(row)}` },
  { name: got, text: (row) => rate(row.measured), class: "number" },
  { name: "Given", text: (row) => (row.flows > 0 && row.limited === 0 ? "–" : rate(row.limited)), class: "number" },
  { name: "Flows", text: (row) => count(row.flows), class: "number short" },
], "Links, the busiest first", "No links are known.");
const flows = new List<Flow>(byId("flows"), [
  { name: "Flow", text: (row) => row.flow, class: "wide", press: (row) => void explain(row), label: (row) => `${row.flow}: explain ${key(row)}` },
  { name: "Job", text: (row) => (source.kind === "scenario" && !row.application ? row.job : `${row.application} / ${row.job}`), class: "wide" },
  { name: "Asked", text: (row) => (row.asked === null ? "no end" : size(row.asked)), class: "number" },
  { name: "Given", text: (row) => (row.given === null ? "no limit" : rate(row.given)), class: "number" },
  { name: got, text: (row) => rate(row.got), class: "number" },
  { name: "Note", text: (row) => row.note, class: "note" },
], "Flows, those that get most first", "No flows now.");
const happenings = new List<Happening>(byId("happenings"), [
  { name: "Time", text: (row) => seconds(row.at), class: "number time", press: (row) => look(row.at), label: (row) => `${seconds(row.at)}, go there: ${row.text}` },
  { name: "Kind", text: (row) => row.kind, class: "kind", mark: (row) => `kind-${row.kind}` },
  { name: "What", text: (row) => row.text, class: "wide" },
], "What happened, the latest first", "Nothing has happened yet.");

/** The instant at which hosts send most: there is something to see. */
function busiest(): number {
  const { times, got } = source.series();
  const most = got.reduce<number>((best, sum, place) => ((sum ?? 0) > (got[best] ?? 0) ? place : best), 0);
  return times[most] ?? 0;
}

function choose(pressed: Link): void {
  link = link !== null && link.from === pressed.from && link.to === pressed.to ? null : pressed;
  show();
}

/** Looks at an instant. */
function look(time: number): void {
  const [from, to] = source.range();
  following = source.live && time >= to - 1e-6;
  now = Math.min(to, Math.max(from, time));
  show();
}

async function explain(flow: Flow): Promise<void> {
  const dialog = byId<HTMLDialogElement>("explain");
  say(byId("explained"), `${flow.application === "" ? "" : `${flow.application} / `}${flow.job} / ${flow.flow}`);
  const body = byId("reasons");
  body.replaceChildren(el("p", {}, "Asking …"));
  dialog.showModal();
  try {
    const list = el("dl", {});
    for (const { term, text } of await source.explain(flow, now)) {
      const texts = typeof text === "string" ? [text] : text;
      list.append(el("div", {}, el("dt", {}, term), ...texts.map((one) => el("dd", {}, one))));
    }
    body.replaceChildren(list);
  } catch (error) {
    body.replaceChildren(el("p", { class: "trouble" }, error instanceof Error ? error.message : String(error)));
  }
}

function show(): void {
  const [from, to] = source.range();
  if (following) now = to;
  const view = source.at(now);
  if (view === null) {
    say(byId("instant"), live?.trouble ?? "");
    problems(live?.trouble ? [`The controller does not answer: ${live.trouble}`] : []);
    return;
  }
  const nodes = source.switches();
  drawing.show(view, nodes);
  const part = (one: Link) => (one.up ? (one.measured ?? 0) / Math.max(1, one.capacity) : 2);
  links.show([...view.links].sort((a, b) => part(b) - part(a)));
  const chosen = link === null ? undefined : view.links.find((one) => one.from === link?.from && one.to === link?.to);
  say(byId("chosen"), chosen === undefined ? "" : `${chosen.from} → ${chosen.to}: ${rate(chosen.measured)} of ${rate(chosen.capacity)}, ${chosen.up && chosen.measured === null ? "not measured" : words[load(chosen)]}; ${count(chosen.flows)} flows, ${chosen.limited === 0 ? "no limits" : `given ${rate(chosen.limited)} in all`}.`);
  document.querySelectorAll("#network .chosen").forEach((line) => line.classList.remove("chosen"));
  if (chosen !== undefined) {
    const number = view.links.indexOf(chosen);
    document.querySelectorAll("#network line")[number]?.classList.add("chosen");
  }
  applications(view);
  const listed = view.flows.filter((flow) => only === "" || flow.application === only);
  flows.show(listed);
  const all = view.flows.length + view.more;
  say(byId("flow-count"), `${only === "" ? "" : `${only}: `}${count(listed.length)} shown${view.more > 0 ? ` of ${count(all)}, those that get most` : ""}`);
  objectives(view);
  problems([...(live?.trouble ? [`The controller does not answer; what you see is old: ${live.trouble}`] : []), ...view.problems]);
  about(view);
  const told = source.happenings();
  const seen = told.filter((one) => one.at <= now + 1e-9).reverse();
  happenings.show(seen);
  const left = source.leftOut();
  say(byId("happening-count"), `${count(seen.length)} until this instant${left > 0 ? `; ${count(left)} left out` : ""}`);
  plot.show(source.series(), told, now);
  slider.value = String(to > from ? Math.round(((now - from) / (to - from)) * STEPS) : STEPS);
  slider.setAttribute("aria-valuetext", `${seconds(now)} of ${seconds(to)}`);
  const sum = view.links.reduce((total, one) => (nodes.has(one.from) ? total : total + (one.measured ?? 0)), 0);
  say(byId("instant"), `${seconds(now)} of ${seconds(to)}`);
  const isMeasured = view.links.some((one) => !nodes.has(one.from) && one.measured !== null);
  say(byId("sum"), isMeasured ? `hosts send ${rate(sum)}` : "nobody measures what hosts send");
  byId("follow").setAttribute("aria-pressed", String(following));
}

function about(view: View): void {
  const list = byId("about");
  const text = JSON.stringify(view.about);
  if (list.dataset["text"] === text) return;
  list.dataset["text"] = text;
  list.replaceChildren(...view.about.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

function problems(all: string[]): void {
  const root = byId("problems");
  const text = all.join("\n");
  if (root.dataset["text"] === text) return;
  root.dataset["text"] = text;
  const most = 8;
  const rows = all.slice(0, most).map((problem) => el("li", {}, problem));
  if (all.length > most) rows.push(el("li", {}, `and ${all.length - most} more`));
  root.replaceChildren(...rows);
  root.hidden = all.length === 0;
}

function applications(view: View): void {
  const most = Math.max(1, ...view.applications.map((one) => Math.max(one.got ?? 0, one.given ?? 0)));
  const root = byId("applications");
  // Buttons keep the focus: rows that are there stay.
  const rows = new Map([...root.children].map((row) => [(row as HTMLElement).dataset["name"] ?? "", row as HTMLElement]));
  const shown = [...view.applications].sort((a, b) => (b.got ?? 0) - (a.got ?? 0)).slice(0, 100);
  shown.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const kept = shown.map((one) => {
    const row = rows.get(one.name) ?? application(one.name);
    row.classList.toggle("gone", !one.connected);
    row.querySelector("button")?.setAttribute("aria-pressed", String(only === one.name));
    const parts = [one.connected ? "" : "not connected", many(one.jobs, "job"), many(one.flows, "flow")];
    if (one.refused > 0) parts.push(`${count(one.refused)} declarations refused`);
    if (one.contradicted > 0) parts.push(`${count(one.contradicted)} flows contradicted`);
    say(row.querySelector(".facts") as Element, parts.filter((text) => text !== "").join(", "));
    say(row.querySelector(".amounts") as Element, `${got.toLowerCase()} ${rate(one.got)}${one.given === null ? "" : `, given ${rate(one.given)}`}`);
    (row.querySelector(".got") as HTMLElement).style.width = `${(100 * (one.got ?? 0)) / most}%`;
    (row.querySelector(".given") as HTMLElement).style.left = `${(100 * (one.given ?? 0)) / most}%`;
    (row.querySelector(".given") as HTMLElement).hidden = one.given === null;
    return row;
  });
  if (kept.length !== root.children.length || kept.some((row, number) => root.children[number] !== row)) root.replaceChildren(...kept);
  byId("no-applications").hidden = kept.length > 0;
}

function application(name: string): HTMLElement {
  const button = el("button", { type: "button", "aria-pressed": "false", title: "show its flows alone" }, name);
  button.addEventListener("click", () => {
    only = only === name ? "" : name;
    show();
  });
  const bar = el("div", { class: "bar", "aria-hidden": "true" }, el("span", { class: "got" }), el("span", { class: "given" }));
  return el("li", { "data-name": name }, el("div", { class: "line" }, button, el("span", { class: "facts" })), bar, el("div", { class: "amounts" }));
}

const many = (number: number, what: string): string => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

function objectives(view: View): void {
  const asked = view.jobs.filter((job) => job.deadline !== null || job.objective !== "" || job.weight !== 1);
  const section = byId("objectives-section");
  section.hidden = asked.length === 0;
  const body = byId("objectives");
  const order = { missed: 0, ahead: 1, none: 2, met: 3 };
  const said = { missed: "missed", ahead: "ahead", none: "no deadline", met: "met" };
  asked.sort((a, b) => order[verdict(a, now)] - order[verdict(b, now)]);
  const row = (job: Job) => {
    const how = verdict(job, now);
    const due = job.deadline !== null && job.started !== null ? job.started + job.deadline : null;
    const left = due === null || how !== "ahead" ? "" : `, ${seconds(due - now)} left`;
    return el("tr", {}, el("th", { scope: "row" }, job.application === "" ? job.job : `${job.application} / ${job.job}`),
      el("td", {}, job.objective === "" ? "–" : job.objective), el("td", {}, String(job.weight)),
      el("td", {}, due === null ? "–" : seconds(due)), el("td", { class: `verdict-${how}` }, `${said[how]}${left}`));
  };
  const met = asked.filter((job) => verdict(job, now) === "met").length;
  const missed = asked.filter((job) => verdict(job, now) === "missed").length;
  say(byId("objective-count"), `${count(asked.length)} jobs ask for something: ${count(met)} met their deadlines, ${count(missed)} missed`);
  body.replaceChildren(...asked.slice(0, 50).map(row));
}

function results(): void {
  const found = source.results();
  byId("results-section").hidden = found === null;
  if (found === null) return;
  const head = el("tr", {}, el("th", { scope: "col" }, "metric"), ...found.policies.map((name) => el("th", { scope: "col" }, name)));
  byId("results-head").replaceChildren(head);
  byId("results").replaceChildren(...found.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name), ...row.cells.map((cell) => el("td", {}, cell)))));
}

function play(): void {
  const button = byId("play");
  if (playing !== undefined) {
    clearInterval(playing);
    playing = undefined;
    say(button, "Play");
    return;
  }
  const [from, to] = source.range();
  if (now >= to) now = from;
  say(button, "Pause");
  playing = setInterval(() => {
    look(now + (to - from) / 200);
    if (now >= source.range()[1]) play();
  }, 100) as unknown as number;
}

function begin(): void {
  document.title = source.live ? "Watermaster" : `${source.title} – Watermaster`;
  say(byId("title"), source.live ? "Watermaster" : source.title);
  say(byId("subtitle"), source.subtitle);
  byId("subtitle").hidden = source.subtitle === "";
  say(byId("badge"), source.kind === "live" ? "live" : source.kind === "recording" ? "recording" : "simulated or lab run");
  byId("command-box").hidden = source.command === "";
  say(byId("command"), source.command);
  byId("follow").hidden = !source.live;
  byId("play").hidden = source.live;
  byId("how").textContent = source.kind === "scenario"
    ? "Between its start and its end a flow is shown at its mean rate, so a link may seem to carry more than it can; limits are exact."
    : source.kind === "recording" ? "Sampled from the recording." : "Asked from the controller each second; payload, as agents measure it.";
  const picker = byId<HTMLSelectElement>("run");
  byId("run-box").hidden = source.runs.length < 2;
  picker.replaceChildren(...source.runs.map((name, number) => el("option", { value: String(number) }, name)));
  picker.addEventListener("change", () => {
    source.choose(Number(picker.value));
    show();
  });
  slider.addEventListener("input", () => {
    const [from, to] = source.range();
    look(from + ((to - from) * Number(slider.value)) / STEPS);
  });
  byId("follow").addEventListener("click", () => look(source.range()[1]));
  byId("play").addEventListener("click", play);
  byId("close").addEventListener("click", () => byId<HTMLDialogElement>("explain").close());
  results();
  if (live === null) {
    show();
    return;
  }
  const again = async (): Promise<void> => {
    const took = await live.ask();
    show();
    // A controller with much to tell is asked less often.
    setTimeout(() => void again(), Math.max(PERIOD, 4 * took));
  };
  void again();
}

begin();
