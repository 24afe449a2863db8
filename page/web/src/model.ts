// What the page shows, whoever tells it: a controller, a recording, or a scenario's result.

/** A directed link at an instant; rates in bit/s. */
export interface Link {
  from: string;
  to: string;
  capacity: number;
  /** Nothing where nobody measures what it carries. */
  measured: number | null;
  limited: number;
  flows: number;
  up: boolean;
}

/** A flow at an instant; rates in bit/s, sizes in octets of payload. */
export interface Flow {
  application: string;
  job: string;
  flow: string;
  /** What it asks to move; nothing where it has no known end. */
  asked: number | null;
  /** The rate that the policy gives; nothing: no limit. */
  given: number | null;
  /** The rate that was measured. */
  got: number | null;
  delivered: number;
  note: string;
}

/** A job at an instant; times in seconds. */
export interface Job {
  application: string;
  job: string;
  flows: number;
  measured: number;
  objective: string;
  weight: number;
  started: number | null;
  /** From its start. */
  deadline: number | null;
  ended: number | null;
}

export interface Application {
  name: string;
  connected: boolean;
  jobs: number;
  flows: number;
  given: number | null;
  got: number | null;
  refused: number;
  contradicted: number;
}

/** Everything at an instant. */
export interface View {
  at: number;
  policy: string;
  about: [string, string][];
  links: Link[];
  applications: Application[];
  jobs: Job[];
  flows: Flow[];
  /** Flows beyond those listed. */
  more: number;
  problems: string[];
}

export type Kind = "decision" | "congestion" | "trouble" | "news";

export interface Happening {
  at: number;
  kind: Kind;
  text: string;
}

/** Load of the network by time, for the plot: what leaves hosts, bit/s. */
export interface Series {
  times: number[];
  got: (number | null)[];
  given: (number | null)[];
}

export interface Paragraph {
  term: string;
  text: string | string[];
}

/** Where views come from. Times are seconds since its beginning. */
export interface Source {
  kind: "live" | "recording" | "scenario";
  title: string;
  subtitle: string;
  command: string;
  live: boolean;
  runs: string[];
  /** Nodes that are no hosts. */
  switches(): Set<string>;
  choose(run: number): void;
  range(): [number, number];
  at(time: number): View | null;
  series(): Series;
  happenings(): Happening[];
  /** How many happenings were left out. */
  leftOut(): number;
  results(): Results | null;
  explain(flow: Flow, time: number): Promise<Paragraph[]>;
}

export interface Results {
  policies: string[];
  rows: { name: string; cells: string[] }[];
}

/** What leaves hosts, in all. */
export function leaving(view: View, switches: Set<string>): { got: number; given: number } {
  let got = 0;
  let given = 0;
  for (const link of view.links) {
    if (!switches.has(link.from)) {
      got += link.measured ?? 0;
      given += link.limited;
    }
  }
  return { got, given };
}

export type Verdict = "met" | "missed" | "ahead" | "none";

/** How a job's deadline stands at an instant. */
export function verdict(job: Job, now: number): Verdict {
  if (job.deadline === null || job.started === null) return "none";
  const due = job.started + job.deadline;
  if (job.ended !== null && job.ended <= now) return job.ended <= due ? "met" : "missed";
  return now > due ? "missed" : "ahead";
}
