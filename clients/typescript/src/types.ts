/** What is asked and answered, as over HTTP. */

/** Plain data. */
export type Answer = Record<string, unknown>;
export type Labels = Record<string, string>;
/** What is known about a visitor: the value of each feature that the experiment declares. */
export type Context = Record<string, string | boolean | number | null>;

/** How to make a decision. */
export interface Visit {
  /** The arms that may be chosen; by default all. */
  eligible?: string[];
  /** The visitor or user: as long as a decision for the same unit is open, it is returned. */
  unit?: string;
  /** An identifier of this call, by which it can be repeated; by default a new one. */
  request?: string;
  /** Where the visit comes from, by which it can be taken back. */
  source?: string;
  /** Up to 8 further attributes for the same purpose. */
  labels?: Labels;
  context?: Context;
  /** Features of arms that hold for this decision, by arm. */
  arms?: Record<string, Context>;
}

export interface Decision {
  /** The signed name of the decision, to be given back with its reward. */
  decision: string;
  experiment: string;
  arm: string;
  probability: number | null;
  repeated: boolean;
  leaf: string | null;
}

export interface DecisionList {
  /** For each member its decision; null if it was refused. */
  decisions: (Decision | null)[];
  refusals: { member: number; code: string; message: string }[];
}

export interface Reward {
  decision: Decision | string;
  value: number;
  source?: string;
  suspicion?: number;
  labels?: Labels;
  /** Numbers of the guardrails that the experiment declares. */
  metrics?: Record<string, number>;
  /** Where rewards add up, what this one is for: each part counts once. */
  part?: string;
}

export type Status = "accepted" | "duplicate" | "conflict" | "unknown" | "expired" | "invalid";

export interface RewardAnswer {
  status: Status;
  detail: string;
}

export interface VisitAnswer extends RewardAnswer {
  /** The signed name of the decision, by which it can be rewarded. */
  decision: string | null;
}

/** A visit for which an arm was drawn here. */
export interface LeasedVisit extends Omit<Visit, "eligible"> {
  draw: number;
  value?: number;
  suspicion?: number;
}

export type Feature =
  | { type: "number"; low: number; high: number }
  | { type: "boolean" }
  | { type: "category"; values?: string[]; buckets?: number };

export interface Schema {
  features: Record<string, Feature>;
  /** Features that tell leaves apart: true, or the cut points of a number. */
  leaves?: Record<string, boolean | number[]>;
  missing?: "refuse" | "bucket";
}

export interface Lease {
  lease: string;
  experiment: string;
  arms: string[];
  /** In units of 2^-32; where visitors fall into leaves, those of each leaf, leaf after leaf. */
  weights: number[];
  /** Secret, in hexadecimal digits. */
  seed: string;
  stream: number;
  visits: number;
  expires: number;
  schema: Schema | null;
  /** Secret, in hexadecimal digits: by which texts fall into buckets. */
  feature_key: string;
}
