import type { Client } from "./client.js";
import { leafOf } from "./contexts.js";
import { ArmraceError, invalid } from "./errors.js";
import { Draws } from "./leases.js";
import { Outbox } from "./queue.js";
import type { Lease, LeasedVisit, Reward, Visit, VisitAnswer } from "./types.js";

export interface LeaseOptions {
  /** How many decisions to draw under a lease. */
  visits?: number;
  /** How many seconds a lease lasts; visits that are reported later are refused. */
  seconds?: number;
  /** After how many seconds weights are too old. */
  refresh?: number;
  /** How many reports may wait. */
  room?: number;
  /** How many milliseconds reports wait for others to share a request. */
  linger?: number;
}

const TOTAL = 2 ** 32;
const RETRY = 1000;

/** A decision that was drawn here; it is reported in the background, and so is its reward. */
export class LeasedDecision {
  readonly arm: string;
  readonly probability: number;
  /** The signed name of the decision, once the service has answered the report. */
  decision: string | null = null;

  /** @internal */
  constructor(
    readonly lease: Lease,
    arm: number,
    leaf: number,
    /** @internal */ public visit: LeasedVisit,
    private readonly report: (made: LeasedDecision) => void,
  ) {
    this.arm = lease.arms[arm]!;
    this.probability = lease.weights[leaf * lease.arms.length + arm]! / TOTAL;
    report(this);
  }

  /** Say what the decision earned. */
  reward(value: number, suspicion?: number): void {
    const before = this.visit;
    if (!Number.isFinite(value)) throw invalid(`value must be a finite number; got ${value}.`);
    if (before.value !== undefined && before.value !== value) {
      const sentence = `the decision has had the reward ${before.value}; got ${value}.`;
      throw new ArmraceError(sentence, "reward-conflict");
    }
    this.visit = { ...before, value, ...(suspicion !== undefined && { suspicion }) };
    try {
      this.report(this);
    } catch (error) {
      this.visit = before;
      throw error;
    }
  }
}

interface Held {
  lease: Lease;
  draws: Draws;
  /** When to replace it and when to stop using it, by the clock of this process. */
  stale: number;
  end: number;
}

/**
 * Decides here, and reports in the background.
 *
 * A lease is taken at the first decision, and another one when it is `refresh` seconds old or
 * nearly used up; until that has come, the old one serves as long as it lasts.
 */
export class LeasedExperiment {
  private readonly visits: number;
  private readonly seconds: number;
  private readonly refresh: number;
  private readonly outbox: Outbox<LeasedDecision, VisitAnswer>;
  private held: Held | undefined;
  private drawn = 0;
  private asking: Promise<void> | undefined;
  private refusal: unknown;
  private nextTry = -Infinity;

  constructor(
    private readonly client: Client,
    readonly name: string,
    options: LeaseOptions = {},
  ) {
    this.visits = options.visits ?? 10_000;
    this.seconds = options.seconds ?? 600;
    this.refresh = options.refresh ?? 10;
    const [room, linger] = [options.room ?? 100_000, options.linger ?? 1000];
    this.outbox = new Outbox((batch) => this.send(batch), "reports", { room }, 1000, linger);
  }

  /** Draw an arm; every call draws anew. */
  async decide(visit: Omit<Visit, "eligible" | "arms"> = {}): Promise<LeasedDecision> {
    let held: Held | undefined;
    while ((held = this.usable()) === undefined) await this.ask();
    // Nothing is awaited from here on, so that no two visits get the same draw.
    const { lease, draws } = held;
    const key = Buffer.from(lease.feature_key, "hex");
    const leaf = lease.schema === null ? 0 : leafOf(lease.schema, visit.context ?? {}, key);
    const draw = this.drawn++;
    const arm = draws.arm(draw, leaf);
    return new LeasedDecision(lease, arm, leaf, { ...visit, draw }, (made) => this.outbox.offer(made));
  }

  /** Visits or rewards that the service has refused, with its answers. */
  get refused(): [LeasedDecision, VisitAnswer][] {
    return this.outbox.refused;
  }

  /** Report what is left. */
  close(timeout?: number): Promise<void> {
    return this.outbox.close(timeout);
  }

  /** Return a lease to draw from; fetch another one in good time. */
  private usable(): Held | undefined {
    const now = performance.now();
    const held = this.held;
    if (held !== undefined && now < held.end && this.drawn < held.lease.visits) {
      const isOld = now >= held.stale || this.drawn >= 0.9 * held.lease.visits;
      if (isOld && now >= this.nextTry) void this.ask().catch(() => {});
      return held;
    }
    if (now < this.nextTry) throw this.refusal; // a shop must not wait every time
    return undefined;
  }

  private ask(): Promise<void> {
    this.asking ??= this.take().finally(() => (this.asking = undefined));
    return this.asking;
  }

  private async take(): Promise<void> {
    const asked = performance.now();
    try {
      const lease = await this.client.lease(this.name, this.visits, this.seconds);
      const leaves = lease.weights.length / lease.arms.length;
      const draws = new Draws(lease.seed, lease.stream, lease.weights, leaves);
      // The last tenth is for reports.
      const [stale, end] = [asked + 1000 * this.refresh, asked + 900 * this.seconds];
      [this.held, this.drawn] = [{ lease, draws, stale, end }, 0];
    } catch (error) {
      [this.refusal, this.nextTry] = [error, performance.now() + RETRY];
      throw error;
    }
  }

  /** Report visits by lease; what was reported before and has a reward now is rewarded. */
  private async send(batch: LeasedDecision[]): Promise<VisitAnswer[]> {
    const found = new Map<LeasedDecision, VisitAnswer>();
    const reports = new Map<string, LeasedDecision[]>();
    const rewards = new Map<LeasedDecision, Reward>();
    for (const each of new Set(batch)) {
      const { value, source, suspicion, labels } = each.visit;
      if (each.decision !== null && value !== undefined) {
        const more = { source, suspicion, labels } as Partial<Reward>;
        rewards.set(each, { decision: each.decision, value, ...more });
      } else {
        const members = reports.get(each.lease.lease);
        members === undefined ? reports.set(each.lease.lease, [each]) : members.push(each);
      }
    }
    for (const [lease, members] of reports) {
      const visits = members.map((each) => each.visit);
      const answers = await this.client.report(this.name, lease, visits);
      members.forEach((each, place) => {
        found.set(each, answers[place]!);
        each.decision = answers[place]!.decision;
      });
    }
    if (rewards.size) {
      const answers = await this.client.rewardBatch([...rewards.values()]);
      [...rewards.keys()].forEach((each, place) =>
        found.set(each, { ...answers[place]!, decision: each.decision }),
      );
    }
    return batch.map((each) => found.get(each)!);
  }
}
