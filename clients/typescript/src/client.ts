import { randomUUID } from "node:crypto";
import { ArmraceError, ServiceUnreachable, invalid } from "./errors.js";
import { LeasedExperiment, type LeaseOptions } from "./leasing.js";
import { RewardQueue, pause, type QueueOptions } from "./queue.js";
import type {
  Answer,
  Decision,
  DecisionList,
  Lease,
  LeasedVisit,
  Reward,
  RewardAnswer,
  Visit,
  VisitAnswer,
} from "./types.js";

export interface ClientOptions {
  /** Where the service is, as in `http://localhost:8380`. */
  address: string;
  /** An API key; by default the environment variable `ARMRACE_KEY`. */
  key?: string;
  /** How many milliseconds to wait for an answer. */
  timeout?: number;
  /** How often to try again. */
  retries?: number;
  /** How requests are sent. */
  fetch?: typeof fetch;
}

const TRY_AGAIN = [408, 429, 502, 503, 504];
const LONGEST_PAUSE = 5000;

/** A client of the service. Requests that get no answer are sent again, without harm. */
export class Client {
  private readonly address: string;
  private readonly headers: Record<string, string>;
  private readonly timeout: number;
  private readonly retries: number;
  private readonly fetch: typeof fetch;

  constructor(options: ClientOptions) {
    if (!/^https?:\/\//.test(options.address)) {
      throw invalid(`address must begin with http:// or https://; got ${options.address}.`);
    }
    this.address = options.address.replace(/\/+$/, "");
    this.timeout = options.timeout ?? 5000;
    this.retries = options.retries ?? 5;
    this.fetch = options.fetch ?? fetch;
    this.headers = { "Content-Type": "application/json" };
    const key = options.key ?? process.env["ARMRACE_KEY"];
    if (key) {
      if (!/^[!-~]+$/.test(key)) {
        throw invalid("key must be ASCII characters without spaces or breaks.");
      }
      this.headers["Authorization"] = `Bearer ${key}`;
    }
  }

  /** Make a decision; as long as one for the same unit or request is open, return that one. */
  async decide(name: string, visit: Visit = {}): Promise<Decision> {
    return this.send("POST", path(name, "decide"), { request: randomUUID(), ...visit });
  }

  /** Make several decisions, at most 1,000; each is made or refused by itself. */
  async decideBatch(name: string, visits: Visit[]): Promise<DecisionList> {
    const decisions = visits.map((visit) => ({ request: randomUUID(), ...visit }));
    return this.send("POST", path(name, "decide/batch"), { decisions });
  }

  /** Record a decision that somebody else made, an editor for instance. */
  async record(name: string, arm: string, visit: Omit<Visit, "eligible"> = {}): Promise<Decision> {
    return this.send("POST", path(name, "record"), { request: randomUUID(), ...visit, arm });
  }

  /** Say what a decision earned; it counts once, however often it is sent. */
  async reward(
    decision: Decision | string,
    value: number,
    more: Omit<Reward, "decision" | "value"> = {},
  ): Promise<"accepted" | "duplicate"> {
    const [body, experiment] = [named({ ...more, decision, value }), experimentOf([decision])];
    const address = experiment === undefined ? "/v1/rewards" : path(experiment, "rewards");
    return (await this.send<{ status: "accepted" | "duplicate" }>("POST", address, body)).status;
  }

  /** Say what several decisions earned, at most 1,000; each has its own answer. */
  async rewardBatch(rewards: Reward[]): Promise<RewardAnswer[]> {
    const experiment = experimentOf(rewards.map((each) => each.decision));
    const address = experiment === undefined ? "/v1/rewards" : path(experiment, "rewards");
    const body = { rewards: rewards.map(named) };
    return (await this.send<{ rewards: RewardAnswer[] }>("POST", `${address}/batch`, body)).rewards;
  }

  /** Take the right to draw decisions here; see {@link leased} for a whole conversation. */
  async lease(name: string, visits = 1000, seconds = 60): Promise<Lease> {
    return this.send("POST", path(name, "leases"), { visits, seconds });
  }

  /** Report visits of a lease, at most 1,000; each counts once. */
  async report(name: string, lease: string, visits: LeasedVisit[]): Promise<VisitAnswer[]> {
    const address = path(name, "leases/report");
    return (await this.send<{ visits: VisitAnswer[] }>("POST", address, { lease, visits })).visits;
  }

  /** Return a queue that sends rewards in the background and drops none. */
  queue(options: QueueOptions = {}): RewardQueue {
    return new RewardQueue((rewards) => this.rewardBatch(rewards), options);
  }

  /** Return an experiment that decides here, and reports in the background. */
  leased(name: string, options: LeaseOptions = {}): LeasedExperiment {
    return new LeasedExperiment(this, name, options);
  }

  /**
   * Send any request of the service, and return its answer. It is sent again if none comes; name
   * a `request` in the bodies of operations that are not idempotent by themselves.
   */
  async send<T>(method: string, address: string, body?: Answer): Promise<T> {
    const content = body === undefined ? null : encode(body);
    for (let attempt = 0; ; attempt++) {
      const outcome = await this.attempt(method, address, content);
      if (!("again" in outcome)) {
        return outcome.answer as T;
      }
      if (attempt >= this.retries) {
        throw new ServiceUnreachable(`${this.address} cannot be reached: ${outcome.again}.`);
      }
      const backoff = Math.min(LONGEST_PAUSE, 50 * 2 ** attempt) * (0.5 + Math.random() / 2);
      await pause(Math.max(backoff, 1000 * outcome.seconds));
    }
  }

  private async attempt(
    method: string,
    address: string,
    body: string | null,
  ): Promise<{ answer: unknown } | { again: string; seconds: number }> {
    let response: Response, text: string;
    try {
      const signal = AbortSignal.timeout(this.timeout);
      const given = { method, headers: this.headers, body, signal };
      response = await this.fetch(this.address + address, given);
      text = await response.text();
    } catch (error) {
      return { again: reason(error), seconds: 0 };
    }
    const status = response.status;
    if (TRY_AGAIN.includes(status)) {
      const seconds = Number(response.headers.get("Retry-After")) || 0;
      return { again: `it answers ${status}`, seconds };
    }
    let answer: { code?: string; message?: string };
    try {
      answer = JSON.parse(text);
    } catch {
      answer = {};
      if (response.ok) throw foreign(status);
    }
    if (response.ok) return { answer };
    if (answer.code === undefined) throw foreign(status);
    throw new ArmraceError(answer.message ?? "", answer.code, status);
  }
}

function foreign(status: number): ServiceUnreachable {
  return new ServiceUnreachable(`what answers with status ${status} is not a service of armrace.`);
}

function reason(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}

function path(name: string, rest: string): string {
  if (typeof name !== "string" || !name || name === "." || name === "..") {
    throw invalid(`name must be a name; got ${name}.`);
  }
  return `/v1/experiments/${encodeURIComponent(name)}/${rest}`;
}

/** A reward with the name of its decision; numbers that JSON does not have are refused here. */
function named(reward: Reward): Answer {
  const { decision, ...rest } = reward;
  return { ...rest, decision: typeof decision === "string" ? decision : decision.decision };
}

/** The experiment, by which a proxy can choose a server, if it is known and one. */
function experimentOf(decisions: (Decision | string)[]): string | undefined {
  const found = new Set(decisions.map((each) => typeof each !== "string" && each.experiment));
  const [first] = found;
  return found.size === 1 && first ? first : undefined;
}

/** JSON without the nulls that `JSON.stringify` makes of NaN: they would count as missing. */
function encode(body: Answer): string {
  return JSON.stringify(body, (name, value) => {
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw invalid(`${name} must be a finite number; got ${value}.`);
    }
    return value;
  });
}
