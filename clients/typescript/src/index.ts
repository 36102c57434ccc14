export { Client, type ClientOptions } from "./client.js";
export { ArmraceError, ServiceUnreachable } from "./errors.js";
export { Draws } from "./leases.js";
export { LeasedDecision, LeasedExperiment, type LeaseOptions } from "./leasing.js";
export { RewardQueue, type QueueOptions } from "./queue.js";
export type * from "./types.js";
