// What has happened: a scenario's result, or a recording. `page/src/film.rs` has the same form.

import type { components } from "./api";
import { rate, seconds, size } from "./format";
import { basics, flow_of, job_of, key, latest, series_of } from "./live";
import { verdict } from "./model";
import type { Flow, Happening, Job, Kind, Link, Paragraph, Results, Series, Source, View } from "./model";

type FlowStatus = components["schemas"]["FlowStatus"];
type JobStatus = components["schemas"]["JobStatus"];
type ApplicationStatus = components["schemas"]["ApplicationStatus"];

const NS = 1e-9;

interface Common {
  title: string;
  subtitle: string;
  command: string;
  about: [string, string][];
  switches: string[];
}

export interface Recording extends Common {
  kind: "recording";
  links: { from: string; to: string; capacity_bps: number }[];
  frames: Frame[];
  happenings: { at_ns: number; kind: Kind; text: string }[];
  left_out: number;
}

/** How the controller stood at an instant. */
interface Frame {
  at_ns: number;
  policy: string;
  problems: string[];
  /** Links that carry flows or are down: number, measured, limited, flows, up. */
  loads: [number, number | null, number, number, boolean][];
  applications: ApplicationStatus[];
  jobs: JobStatus[];
  flows: FlowStatus[];
  /** Why each has its rate, by the order of `flows`. */
  why: string[];
  more: number;
}

export interface Scenario extends Common {
  kind: "scenario";
  links: { from: string; to: string; capacity_bps: number }[];
  runs: Run[];
  metrics: { name: string; cells: string[] }[];
}

interface Run {
  policy: string;
  end_ns: number;
  applications: string[];
  flows: RunFlow[];
  /** Flows beyond those, and jobs. */
  more: number;
  jobs: RunJob[];
  /** By link: packets dropped and marked, most packets in the queue. */
  links: [number, number, number][];
  notes: string[];
}

interface RunFlow {
  id: number;
  job: number;
  application: number;
  size: number | null;
  delivered: number;
  start_ns: number;
  end_ns: number | null;
  limits: [number, number | null][];
  path: number[];
}

interface RunJob {
  id: number;
  application: number;
  arrival_ns: number;
  end_ns: number | null;
  objective: string;
  weight: number;
  deadline_ns: number | null;
}

abstract class Film<T extends Common> implements Source {
  abstract readonly kind: "recording" | "scenario";
  readonly live = false;
  private readonly nodes: Set<string>;

  constructor(protected readonly data: T) {
    this.nodes = new Set(data.switches);
  }

  get title(): string { return this.data.title; }
  get subtitle(): string { return this.data.subtitle; }
  get command(): string { return this.data.command; }
  get runs(): string[] { return []; }
  switches(): Set<string> { return this.nodes; }
  choose(_run: number): void {}
  leftOut(): number { return 0; }
  results(): Results | null { return null; }
  abstract range(): [number, number];
  abstract at(time: number): View | null;
  abstract series(): Series;
  abstract happenings(): Happening[];
  abstract explain(flow: Flow, time: number): Promise<Paragraph[]>;
}

export class Recorded extends Film<Recording> {
  readonly kind = "recording";
  private readonly views: View[];
  private readonly since: number;

  constructor(data: Recording) {
    super(data);
    this.since = data.frames[0]?.at_ns ?? 0;
    this.views = data.frames.map((frame) => this.view(frame));
  }

  private view(frame: Frame): View {
    const links: Link[] = this.data.links.map((link) => ({
      from: link.from, to: link.to, capacity: link.capacity_bps, measured: 0, limited: 0, flows: 0, up: true,
    }));
    for (const [number, measured, limited, flows, up] of frame.loads) {
      const link = links[number];
      if (link !== undefined) Object.assign(link, { measured, limited, flows, up });
    }
    return {
      at: (frame.at_ns - this.since) * NS,
      policy: frame.policy,
      about: [["Policy", frame.policy], ...this.data.about],
      links,
      applications: frame.applications.map((known) => ({
        name: known.name, connected: known.connected, jobs: known.jobs, flows: known.flows, given: null,
        got: frame.jobs.reduce((sum, job) => sum + (job.application === known.name ? job.measured_bps : 0), 0),
        refused: known.refused, contradicted: known.contradicted,
      })),
      jobs: frame.jobs.map((job) => job_of(job, this.since)),
      flows: frame.flows.map(flow_of),
      more: frame.more,
      problems: frame.problems,
    };
  }

  range(): [number, number] {
    return [0, this.views.at(-1)?.at ?? 0];
  }

  at(time: number): View | null {
    return latest(this.views, time);
  }

  series(): Series {
    return series_of(this.views, this.switches());
  }

  happenings(): Happening[] {
    return this.data.happenings.map((one) => ({ at: (one.at_ns - this.since) * NS, kind: one.kind, text: one.text }));
  }

  override leftOut(): number {
    return this.data.left_out;
  }

  explain(flow: Flow, time: number): Promise<Paragraph[]> {
    const view = latest(this.views, time);
    const frame = view === null ? undefined : this.data.frames[this.views.indexOf(view)];
    const place = frame?.flows.findIndex((one) => key(flow_of(one)) === key(flow)) ?? -1;
    const why = frame?.why[place] ?? "";
    return Promise.resolve([
      { term: "Why", text: why === "" ? "it isn't among the flows whose reason is kept; replay the file without --open" : why },
      ...basics(flow),
    ]);
  }
}

export class Result extends Film<Scenario> {
  readonly kind = "scenario";
  private run = 0;
  private cache: { run: number; series: Series; told: Happening[] } | null = null;

  override get runs(): string[] {
    return this.data.runs.map((run) => run.policy);
  }

  override choose(run: number): void {
    this.run = run;
  }

  private get chosen(): Run {
    return this.data.runs[this.run] as Run;
  }

  /** All runs have one scale of time, so that they can be compared. */
  range(): [number, number] {
    return [0, Math.max(0, ...this.data.runs.map((run) => run.end_ns)) * NS];
  }

  at(time: number): View {
    const run = this.chosen;
    const now = time / NS;
    const links: Link[] = this.data.links.map((link) => ({
      from: link.from, to: link.to, capacity: link.capacity_bps, measured: 0, limited: 0, flows: 0, up: true,
    }));
    const flows: Flow[] = [];
    const jobs = new Map<number, Job>();
    for (const job of run.jobs) {
      if (job.arrival_ns > now) continue;
      jobs.set(job.id, {
        application: this.name(job.application), job: `job ${job.id}`, flows: 0, measured: 0, objective: job.objective,
        weight: job.weight, started: job.arrival_ns * NS, deadline: job.deadline_ns === null ? null : job.deadline_ns * NS,
        ended: job.end_ns === null ? null : job.end_ns * NS,
      });
    }
    const sums = new Map<number, { flows: number; given: number | null; got: number }>();
    for (const flow of run.flows) {
      if (flow.start_ns > now || (flow.end_ns ?? run.end_ns) <= now) continue;
      const got = mean(flow, run.end_ns);
      const given = limit(flow, now);
      for (const number of flow.path) {
        const link = links[number];
        if (link === undefined) continue;
        link.measured = (link.measured ?? 0) + got;
        link.limited += given ?? 0;
        link.flows += 1;
      }
      const sum = sums.get(flow.application) ?? { flows: 0, given: 0, got: 0 };
      sum.flows += 1;
      sum.got += got;
      sum.given = sum.given === null || given === null ? null : sum.given + given;
      sums.set(flow.application, sum);
      const job = jobs.get(flow.job);
      if (job !== undefined) {
        job.flows += 1;
        job.measured += got;
      }
      const passed = (now - flow.start_ns) / ((flow.end_ns ?? run.end_ns) - flow.start_ns);
      flows.push({
        application: this.name(flow.application), job: `job ${flow.job}`, flow: String(flow.id), asked: flow.size,
        given, got, delivered: flow.delivered * passed, note: "",
      });
    }
    flows.sort((a, b) => (b.got ?? 0) - (a.got ?? 0));
    const names = run.applications.length === 0 ? [""] : run.applications;
    return {
      at: time,
      policy: run.policy,
      about: [["Policy", run.policy], ...this.data.about],
      links,
      applications: names.map((_, number) => {
        const sum = sums.get(number);
        const own = run.jobs.filter((job) => job.application === number && job.arrival_ns <= now && (job.end_ns ?? Infinity) > now);
        return {
          name: this.name(number), connected: true, jobs: own.length, flows: sum?.flows ?? 0,
          given: sum?.given ?? null, got: sum?.got ?? 0, refused: 0, contradicted: 0,
        };
      }),
      jobs: [...jobs.values()].filter((job) => job.ended === null || job.ended > time || job.deadline !== null),
      flows,
      more: run.more,
      problems: run.notes,
    };
  }

  private name(application: number): string {
    return this.chosen.applications[application] ?? "application";
  }

  private made(): { series: Series; told: Happening[] } {
    if (this.cache?.run === this.run) return this.cache;
    const run = this.chosen;
    const changes: [number, number, number][] = [];
    const told: Happening[] = [];
    for (const flow of run.flows) {
      const end = flow.end_ns ?? run.end_ns;
      const got = mean(flow, run.end_ns);
      changes.push([flow.start_ns, got, 0], [end, -got, 0]);
      let held = 0;
      for (const [at, given] of flow.limits) {
        if (at >= end) break;
        changes.push([at, 0, (given ?? 0) - held]);
        held = given ?? 0;
        told.push({ at: at * NS, kind: "decision", text: `job ${flow.job}, flow ${flow.id}: ${given === null ? "its limit is lifted" : `held to ${rate(given)}`}` });
      }
      changes.push([end, 0, -held]);
    }
    for (const job of run.jobs) {
      told.push({ at: job.arrival_ns * NS, kind: "news", text: `job ${job.id} arrives` });
      if (job.end_ns === null) continue;
      const end = job.end_ns * NS;
      const how = verdict({ started: job.arrival_ns * NS, deadline: job.deadline_ns === null ? null : job.deadline_ns * NS, ended: end } as Job, end);
      const word = how === "met" ? "; its deadline is met" : how === "missed" ? "; its deadline is missed" : "";
      told.push({ at: end, kind: how === "missed" ? "trouble" : "news", text: `job ${job.id} has ended after ${seconds((job.end_ns - job.arrival_ns) * NS)}${word}` });
    }
    told.sort((a, b) => a.at - b.at);
    changes.sort((a, b) => a[0] - b[0]);
    const series: Series = { times: [], got: [], given: [] };
    const points = 1500;
    const step = this.range()[1] / points;
    let [got, given, next] = [0, 0, 0];
    for (let point = 0; point <= points; point++) {
      const until = (point * step) / NS;
      for (; next < changes.length && (changes[next] as number[])[0]! <= until; next++) {
        const [, more, held] = changes[next] as [number, number, number];
        got += more;
        given += held;
      }
      series.times.push(point * step);
      series.got.push(Math.max(0, got));
      series.given.push(Math.max(0, given));
    }
    this.cache = { run: this.run, series, told };
    return this.cache;
  }

  series(): Series {
    return this.made().series;
  }

  happenings(): Happening[] {
    return this.made().told;
  }

  override results(): Results {
    return { policies: this.runs, rows: this.data.metrics };
  }

  explain(flow: Flow, time: number): Promise<Paragraph[]> {
    const run = this.chosen;
    const found = run.flows.find((one) => String(one.id) === flow.flow);
    const paragraphs: Paragraph[] = [];
    if (found !== undefined) {
      const given = limit(found, time / NS);
      const since = found.limits.filter(([at]) => at <= time / NS).at(-1);
      paragraphs.push({
        term: "Why",
        text: given === null
          ? `policy ${run.policy} sets no limit for it${since === undefined ? "" : ` since ${seconds(since[0] * NS)}`}: the transport decides`
          : `policy ${run.policy} holds it to ${rate(given)} since ${seconds((since?.[0] ?? 0) * NS)}`,
      });
      paragraphs.push(...basics(flow));
      paragraphs.push({ term: "Asked", text: size(found.size) });
      const end = found.end_ns;
      paragraphs.push({ term: "From, to", text: `${seconds(found.start_ns * NS)}, ${end === null ? "cut off by the run's end" : seconds(end * NS)}` });
      paragraphs.push({ term: "Path", text: found.path.map((number) => this.data.links[number]).map((link) => `${link?.from} → ${link?.to}`) });
      if (found.limits.length > 0) {
        const shown = found.limits.slice(0, 20).map(([at, bps]) => `${seconds(at * NS)}: ${bps === null ? "free" : rate(bps)}`);
        if (found.limits.length > 20) shown.push(`and ${found.limits.length - 20} more`);
        paragraphs.push({ term: "Limits", text: shown });
      }
    }
    return Promise.resolve(paragraphs);
  }
}

/** What a flow got, over its life. */
function mean(flow: RunFlow, end: number): number {
  const life = ((flow.end_ns ?? end) - flow.start_ns) * NS;
  return life > 0 ? (8 * flow.delivered) / life : 0;
}

function limit(flow: RunFlow, now: number): number | null {
  let given: number | null = null;
  for (const [at, bps] of flow.limits) {
    if (at > now) break;
    given = bps;
  }
  return given;
}
