/** What Python draws and encodes, as the tests of the Python client have written it down. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { leafOf } from "../src/contexts.js";
import { Draws } from "../src/leases.js";
import type { Context, Schema } from "../src/index.js";

interface Vectors {
  draws: { seed: string; stream: number; weights: number[]; leaves: number; first: number; arms: number[][] }[];
  contexts: { schema: Schema; key: string; cases: [Context, number | string][] }[];
}
const vectors: Vectors = JSON.parse(readFileSync(process.env["ARMRACE_VECTORS"]!, "utf8"));

test("draws are those of Python", () => {
  assert.ok(vectors.draws.length > 10);
  for (const { seed, stream, weights, leaves, first, arms } of vectors.draws) {
    const draws = new Draws(seed, stream, weights, leaves);
    const found = arms.map((row, leaf) => row.map((_, n) => draws.arm(first + n, leaf)));
    assert.deepEqual(found, arms);
  }
});

test("leaves are those of Python, and so are refusals", () => {
  assert.ok(vectors.contexts.length > 3);
  for (const { schema, key, cases } of vectors.contexts) {
    for (const [context, expected] of cases) {
      let found: number | string;
      try {
        found = leafOf(schema, context, Buffer.from(key, "hex"));
      } catch (error) {
        found = (error as { code: string }).code;
      }
      assert.equal(found, expected, JSON.stringify({ schema, context }));
    }
  }
});

test("what is no lease, or cannot keep the order of leaves, is refused", () => {
  assert.throws(() => new Draws("00", 0, [2 ** 32]), /32 bytes/);
  assert.throws(() => new Draws("00".repeat(32), 0, [1]), /2\^32/);
  const boolean = { type: "boolean" } as const;
  const schema = { features: { 2: boolean, 1: boolean }, leaves: { 2: true, 1: true } };
  assert.throws(() => leafOf(schema, { 1: true, 2: false }, Buffer.alloc(0)), /cannot be leased/);
});
