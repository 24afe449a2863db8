// A controller that runs, asked again and again.

import type { components } from "./api";
import { rate, share } from "./format";
import { leaving, verdict } from "./model";
import type { Application, Flow, Happening, Job, Kind, Paragraph, Series, Source, View } from "./model";

type Status = components["schemas"]["ControllerStatus"];
type FlowStatus = components["schemas"]["FlowStatus"];
type JobStatus = components["schemas"]["JobStatus"];
type FlowExplanation = components["schemas"]["FlowExplanation"];

/** Flows that are asked for, those with the highest measured rate first. */
export const FLOWS = 200;
/** Views that are kept to look back at, and happenings. */
const KEPT = 900;
const HAPPENINGS = 2000;

const NS = 1e-9;

export async function get<T>(path: string): Promise<T> {
  const answer = await fetch(path, { headers: { accept: "application/json" }, cache: "no-store" });
  const said = (await answer.json()) as T & { error?: { field: string; reason: string } };
  if (!answer.ok) throw new Error(said.error === undefined ? `status ${answer.status}` : `${said.error.field}: ${said.error.reason}`);
  return said;
}

export class Live implements Source {
  readonly kind = "live";
  readonly title = "Live";
  readonly subtitle = "";
  readonly command = "";
  readonly live = true;
  readonly runs: string[] = [];
  private readonly views: View[] = [];
  private readonly told: Happening[] = [];
  private dropped = 0;
  private nodes = new Set<string>();
  private before: { status: Status; jobs: JobStatus[]; view: View } | null = null;
  /** When the page began to look, by the controller's clock of which the epoch is, ns; and when it looked last, ms. */
  private since = { epoch: 0, ns: 0 };
  private looked = 0;
  private notices = new Map<string, number>();
  /** Jobs that had a deadline, and how they ended. */
  private readonly ended: Job[] = [];
  trouble = "";

  switches(): Set<string> {
    return this.nodes;
  }

  choose(): void {}

  /** Asks; the time that the answers took, ms. */
  async ask(): Promise<number> {
    const begun = performance.now();
    try {
      const [status, flows, jobs] = await Promise.all([
        get<Status>("v1/status"),
        get<FlowStatus[]>(`v1/flows?most=${FLOWS}`),
        get<JobStatus[]>("v1/jobs"),
      ]);
      if (this.trouble !== "") this.happens(this.end(), "news", "the controller answers again");
      this.trouble = "";
      this.take(status, flows, jobs);
    } catch (error) {
      if (this.trouble === "") this.happens(this.end(), "trouble", "the controller does not answer");
      this.trouble = error instanceof Error ? error.message : String(error);
    }
    return performance.now() - begun;
  }

  private take(status: Status, flows: FlowStatus[], jobs: JobStatus[]): void {
    const last = this.views.at(-1);
    const former = this.since.epoch;
    if (former !== status.epoch) {
      // Another controller has another clock: what it says follows on what was seen before, by the page's own.
      const passed = performance.now() - this.looked;
      const ns = last === undefined ? status.since_ns : status.now_ns - (last.at + passed / 1000) / NS;
      this.since = { epoch: status.epoch, ns };
      // It hears of everything anew, which is no end of what was.
      this.notices.clear();
      this.before = null;
    }
    this.looked = performance.now();
    this.nodes = new Set(status.switches.map((node) => node.name));
    const at = (status.now_ns - this.since.ns) * NS;
    const running = jobs.map((job) => job_of(job, this.since.ns));
    const applications = status.applications.map((known): Application => {
      const own = jobs.filter((job) => job.application === known.name);
      const listed = flows.filter((flow) => flow.application === known.name);
      const whole = listed.length >= known.flows && listed.every((flow) => flow.intended_bps !== null);
      return {
        name: known.name,
        connected: known.connected,
        jobs: known.jobs,
        flows: known.flows,
        given: whole ? listed.reduce((sum, flow) => sum + (flow.intended_bps ?? 0), 0) : null,
        got: own.reduce((sum, job) => sum + job.measured_bps, 0),
        refused: known.refused,
        contradicted: known.contradicted,
      };
    });
    const all = status.applications.reduce((sum, known) => sum + known.flows, 0);
    const view: View = {
      at,
      policy: status.policy,
      about: [
        ["Policy", status.policy],
        ["Enforced by", status.enforcement],
        ["Epoch", String(status.epoch)],
        ["Recorder", status.recorder],
        ["Agents", String(status.agents.length)],
        ["Switches", `${status.switches.filter((node) => node.connected).length} of ${status.switches.length} connected`],
      ],
      links: status.links.map((link) => ({
        from: link.from, to: link.to, capacity: link.capacity_bps, measured: link.measured_bps,
        limited: link.limited_bps, flows: link.flows, up: link.up,
      })),
      applications,
      jobs: [...running, ...this.ended],
      flows: flows.map(flow_of),
      more: Math.max(0, all - flows.length),
      problems: status.problems,
    };
    this.compare(status, jobs, view, last === undefined ? null : former);
    view.jobs = [...running, ...this.ended];
    this.before = { status, jobs, view };
    if (last !== undefined && last.at >= at) this.views.pop();
    this.views.push(view);
    if (this.views.length > KEPT) this.views.splice(0, this.views.length - KEPT);
  }

  /** What has happened since the view before, which was under the epoch `former`. */
  private compare(status: Status, jobs: JobStatus[], view: View, former: number | null): void {
    const at = view.at;
    for (const link of status.links) {
      const said = link.congested;
      const name = `${link.from} → ${link.to}`;
      if (said === null || said.notices === (this.notices.get(name) ?? 0)) continue;
      this.notices.set(name, said.notices);
      const when = (said.at_ns - this.since.ns) * NS;
      const many = !this.nodes.has(link.to) && link.flows > 1 ? `, ${link.flows} flows meet there` : "";
      if (said.severity === "recovered") this.happens(when, "news", `${name} has recovered from congestion`);
      else this.happens(when, "congestion", `${many === "" ? "congestion" : "incast"} at ${name}: ${said.severity}, ${Math.round(said.queue_bytes / 1000)} kB queued${many}`);
    }
    const before = this.before;
    if (before === null) {
      const sees = former === null ? "the page sees" : `epoch ${status.epoch} decides, after ${former}:`;
      this.happens(at, "news", `${sees} policy ${status.policy}, ${status.applications.length} applications`);
      for (const problem of view.problems) this.happens(at, "trouble", problem);
      return;
    }
    if (before.status.policy !== status.policy) this.happens(at, "decision", `policy ${status.policy} decides, after ${before.status.policy}`);
    const others = (from: string[], than: string[]) => { const known = new Set(than); return from.filter((name) => !known.has(name)); };
    for (const problem of others(status.problems, before.status.problems)) this.happens(at, "trouble", problem);
    for (const problem of others(before.status.problems, status.problems)) this.happens(at, "news", `over: ${problem}`);
    const job = (one: JobStatus) => `${one.application}/${one.job}`;
    const [now, then] = [jobs.map(job), before.jobs.map(job)];
    for (const name of others(now, then).slice(0, 50)) this.happens(at, "news", `job ${name} begins`);
    for (const name of others(then, now).slice(0, 50)) {
      const gone = before.view.jobs.find((one) => one.ended === null && `${one.application}/${one.job}` === name);
      let how = "";
      if (gone !== undefined && gone.deadline !== null) {
        const over = { ...gone, ended: at, flows: 0, measured: 0 };
        this.ended.push(over);
        if (this.ended.length > 100) this.ended.shift();
        how = verdict(over, at) === "met" ? "; its deadline is met" : "; its deadline is missed";
      }
      this.happens(at, how.endsWith("missed") ? "trouble" : "news", `job ${name} has ended${how}`);
    }
    const given = new Map(before.view.flows.map((flow) => [key(flow), flow.given]));
    let changed = 0;
    let first = "";
    for (const flow of view.flows) {
      const old = given.get(key(flow));
      if (old === undefined || old === flow.given) continue;
      changed += 1;
      if (first === "") first = `${key(flow)} is given ${flow.given === null ? "no limit" : rate(flow.given)}`;
    }
    if (changed > 0) this.happens(at, "decision", first + (changed > 1 ? `, and ${changed - 1} other flows another rate` : ""));
  }

  private happens(at: number, kind: Kind, text: string): void {
    this.told.push({ at, kind, text });
    if (this.told.length > HAPPENINGS) {
      this.told.shift();
      this.dropped += 1;
    }
  }

  private end(): number {
    return this.views.at(-1)?.at ?? 0;
  }

  range(): [number, number] {
    return [this.views[0]?.at ?? 0, this.end()];
  }

  at(time: number): View | null {
    return latest(this.views, time);
  }

  series(): Series {
    return series_of(this.views, this.nodes);
  }

  happenings(): Happening[] {
    return this.told;
  }

  leftOut(): number {
    return this.dropped;
  }

  results(): null {
    return null;
  }

  async explain(flow: Flow, time: number): Promise<Paragraph[]> {
    const path = [flow.application, flow.job, flow.flow].map(encodeURIComponent).join("/");
    const said = await get<FlowExplanation>(`v1/explain/${path}`);
    const paragraphs: Paragraph[] = [{ term: "Why", text: said.why }, { term: "By", text: said.by }, ...basics(flow_of(said.flow))];
    if (time < this.end() - 5) paragraphs.unshift({ term: "As of", text: "now, not of the instant that you look at" });
    if (said.flow.failed !== null) paragraphs.push({ term: "Not enforced", text: said.flow.failed });
    if (said.flow.contradicted !== null) paragraphs.push({ term: "Contradicted", text: said.flow.contradicted });
    if (said.path.length > 0) paragraphs.push({ term: "Path", text: said.path });
    const narrow = said.bottleneck;
    if (narrow !== null) {
      paragraphs.push({ term: "Bottleneck", text: `${narrow.link}: ${rate(narrow.measured_bps)} of ${rate(narrow.capacity_bps)} (${share(narrow.measured_bps, narrow.capacity_bps)})` });
      const rivals = narrow.rivals.map((rival) => `${[rival.application, rival.job, rival.flow].filter((part) => part !== "").join("/")}: given ${rate(rival.intended_bps)}, gets ${rate(rival.measured_bps)}`);
      if (narrow.more > 0) rivals.push(`and ${narrow.more} more`);
      if (rivals.length > 0) paragraphs.push({ term: "Others there", text: rivals });
    }
    const objective = said.objective;
    if (objective !== null) {
      paragraphs.push({ term: "Objective", text: `${objective.name}: ${objective.aim}, served by ${objective.policy}${objective.late ? "; its deadline has passed" : ""}` });
      for (const link of objective.shared) {
        paragraphs.push({ term: `Shares of ${link.link}`, text: link.parts.map((part) => `${part.objective} (${part.aim}): given ${rate(part.given_bps)}, could use ${rate(part.wants_bps)}${part.yields ? "; it yields" : ""}`) });
      }
    }
    return paragraphs;
  }
}

export const key = (flow: Flow): string => `${flow.application}/${flow.job}/${flow.flow}`;

/** What is said of a flow wherever it is shown. */
export function basics(flow: Flow): Paragraph[] {
  return [
    { term: "Given", text: flow.given === null ? "no limit" : rate(flow.given) },
    { term: "Got", text: rate(flow.got) },
  ];
}

export function flow_of(flow: FlowStatus): Flow {
  return {
    application: flow.application, job: flow.job, flow: flow.flow, asked: flow.bytes,
    given: flow.intended_bps, got: flow.measured_bps, delivered: flow.delivered_bytes,
    note: flow.failed !== null ? "not enforced" : flow.contradicted !== null ? "contradicted" : "",
  };
}

export function job_of(job: JobStatus, since: number): Job {
  const deadline = job.terms?.deadline_ms ?? null;
  return {
    application: job.application, job: job.job, flows: job.flows, measured: job.measured_bps,
    objective: job.terms?.objective ?? "", weight: job.terms?.weight ?? 1, started: (job.started_ns - since) * NS,
    deadline: deadline === null ? null : deadline / 1000, ended: null,
  };
}

/** The last view that is no later than `time`; the first where none is. */
export function latest(views: View[], time: number): View | null {
  let [low, high] = [0, views.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((views[middle] as View).at <= time + 1e-9) low = middle + 1;
    else high = middle;
  }
  return views[Math.max(0, low - 1)] ?? null;
}

export function series_of(views: View[], switches: Set<string>): Series {
  const sums = views.map((view) => leaving(view, switches));
  return { times: views.map((view) => view.at), got: sums.map((sum) => sum.got), given: sums.map((sum) => sum.given) };
}
