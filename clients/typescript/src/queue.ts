import { ArmraceError, ServiceUnreachable, invalid } from "./errors.js";
import type { Reward, RewardAnswer } from "./types.js";

export interface QueueOptions {
  /** How many items may wait. */
  room?: number;
  /** What `put` does when there is no room: wait, or throw. */
  whenFull?: "wait" | "throw";
}

const PAUSE = 500;

export const pause = (milliseconds: number) =>
  new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/**
 * Items that are sent in the background, in batches, from the first one on.
 *
 * A batch that the service does not answer is sent again until it does; the members of a batch that
 * is refused are sent one by one. `close` resolves when everything was sent.
 */
export class Outbox<Item, Answer extends RewardAnswer> {
  /** What the service has refused, with its answers. */
  readonly refused: [Item, Answer][] = [];
  private readonly room: number;
  private readonly waits: boolean;
  private waiting: Item[] = [];
  private unsent = 0;
  private closed = false;
  private givenUp = false;
  private failure: ArmraceError | undefined;
  private work: Promise<void> | undefined;
  private hurry: () => void = () => {};
  private roomMade: (() => void)[] = [];

  constructor(
    private readonly sendBatch: (items: Item[]) => Promise<Answer[]>,
    private readonly what: string,
    options: QueueOptions,
    private readonly largest = 500,
    private readonly linger = 0,
  ) {
    this.room = options.room ?? 10_000;
    this.waits = (options.whenFull ?? "wait") === "wait";
    if (!Number.isInteger(this.room) || this.room < 1) {
      throw invalid(`room must be a whole number of at least 1; got ${this.room}.`);
    }
  }

  /** Take an item, or throw if there is no room. */
  offer(item: Item): void {
    if (this.closed) throw invalid("the queue is closed.");
    if (this.waiting.length >= this.room) {
      throw new ArmraceError(`${this.what} that wait must be at most ${this.room}.`, "too-many-open");
    }
    this.waiting.push(item);
    if (this.waiting.length >= this.largest) this.hurry();
    this.work ??= this.sendAll();
  }

  protected async putItem(item: Item): Promise<void> {
    while (this.waits && !this.closed && this.waiting.length >= this.room) {
      this.hurry();
      await new Promise<void>((resolve) => this.roomMade.push(resolve));
    }
    this.offer(item);
  }

  /**
   * Send what is left, and take no more.
   *
   * @param timeout after how many milliseconds to give up; by default never.
   */
  async close(timeout?: number): Promise<void> {
    this.closed = true;
    this.hurry();
    this.roomMade.splice(0).forEach((resolve) => resolve());
    const inTime = await within(this.work ?? Promise.resolve(), timeout);
    if (!inTime) {
      this.givenUp = true; // else it would keep the process from ending
      const left = this.unsent + this.waiting.length;
      throw new ServiceUnreachable(`${left} ${this.what} could not be sent in ${timeout} ms.`);
    }
    if (this.failure !== undefined) {
      const { code, status, message } = this.failure;
      const said = `some ${this.what} could not be delivered, see refused; the last because ${message}`;
      throw new ArmraceError(said, code, status);
    }
  }

  private async sendAll(): Promise<void> {
    while (this.waiting.length && !this.givenUp) {
      if (this.linger && !this.closed && this.waiting.length < this.largest) {
        const hurried = new Promise<void>((resolve) => (this.hurry = resolve));
        await within(hurried, this.linger);
      }
      await Promise.resolve(); // what is put in the same turn goes along
      const batch = this.waiting.splice(0, this.largest);
      this.unsent = batch.length;
      this.roomMade.splice(0).forEach((resolve) => resolve());
      await this.deliver(batch);
      this.unsent = 0;
    }
    this.work = undefined;
  }

  private async deliver(items: Item[]): Promise<void> {
    for (;;) {
      try {
        const answers = await this.sendBatch(items);
        items.forEach((item, place) => this.note(item, answers[place]!));
        return;
      } catch (error) {
        if (error instanceof ServiceUnreachable) {
          if (this.givenUp) return;
          await pause(PAUSE);
        } else if (items.length > 1) {
          for (const item of items) await this.deliver([item]); // one may be the reason for all
          return;
        } else {
          const given = error instanceof ArmraceError ? error : invalid(String(error));
          this.failure = given;
          this.note(items[0]!, { status: "invalid", detail: given.message } as Answer);
          return;
        }
      }
    }
  }

  private note(item: Item, answer: Answer): void {
    if (answer.status !== "accepted" && answer.status !== "duplicate") {
      this.refused.push([item, answer]);
    }
  }
}

/** Wait for something, but no longer than some milliseconds; return whether it came. */
async function within(work: Promise<void>, timeout: number | undefined): Promise<boolean> {
  if (timeout === undefined) return work.then(() => true);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, timeout, false)));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Takes rewards at once and sends them in batches; each counts once, however often it is sent. */
export class RewardQueue extends Outbox<Reward, RewardAnswer> {
  constructor(send: (rewards: Reward[]) => Promise<RewardAnswer[]>, options: QueueOptions) {
    super(send, "rewards", options);
  }

  /** Take a reward; resolves once there is room for it. */
  async put(reward: Reward): Promise<void> {
    if (!Number.isFinite(reward.value)) {
      throw invalid(`value must be a finite number; got ${reward.value}.`);
    }
    await this.putItem({ ...reward });
  }
}
