/**
 * The draws of a lease, equal in every language: draw n is word n mod 16 of
 * SHA-512(seed, stream, floor(n / 16)), and its arm the first whose cumulative weight exceeds it.
 */
import { createHash } from "node:crypto";
import { invalid } from "./errors.js";

const TOTAL = 2 ** 32;

export class Draws {
  private readonly message = Buffer.alloc(48);
  private readonly bounds: number[][] = [];
  private block = -1;
  private digest = Buffer.alloc(64);

  /**
   * @param seed 32 bytes, in hexadecimal digits.
   * @param weights whole numbers with the sum 2^32, for each leaf.
   */
  constructor(seed: string, stream: number, weights: number[], leaves = 1) {
    if (!/^[0-9a-f]{64}$/.test(seed)) throw invalid("seed must have 32 bytes.");
    this.message.write(seed, "hex");
    this.message.writeBigUInt64LE(BigInt(stream), 32);
    const arms = weights.length / leaves;
    for (let leaf = 0; leaf < leaves; leaf++) {
      let sum = 0;
      const row = weights.slice(leaf * arms, (leaf + 1) * arms);
      this.bounds.push(row.map((weight) => (sum += weight)));
      if (sum !== TOTAL || Math.min(...row) < 0) {
        throw invalid("weights must be at least 0 and sum to 2^32.");
      }
    }
  }

  /** Return the arm of draw `n`, for a visitor of a leaf. */
  arm(n: number, leaf = 0): number {
    const block = Math.floor(n / 16);
    if (block !== this.block) {
      this.block = block;
      this.message.writeBigUInt64LE(BigInt(block), 40);
      this.digest = createHash("sha512").update(this.message).digest();
    }
    const word = this.digest.readUInt32LE(4 * (n % 16));
    return this.bounds[leaf]!.findIndex((bound) => word < bound);
  }
}
