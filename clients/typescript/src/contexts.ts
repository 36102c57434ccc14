import { keyedDigest } from "./blake2b.js";
import { ArmraceError, invalid } from "./errors.js";
import type { Context, Feature, Schema } from "./types.js";

const LONGEST_TEXT = 200;

/**
 * Return the leaf of a visitor, as the service finds it, or refuse features as the service would.
 *
 * @param key the secret key of the experiment, by which texts fall into buckets.
 */
export function leafOf(schema: Schema, context: Context, key: Buffer): number {
  for (const name of Object.keys(context)) {
    if (!Object.hasOwn(schema.features, name)) {
      throw refused("unknown-feature", `there is no feature '${name}'.`);
    }
  }
  const mayLack = schema.missing === "bucket";
  const values = new Map<string, string | boolean | number | null>();
  for (const [name, feature] of Object.entries(schema.features)) {
    const value = Object.hasOwn(context, name) ? (context[name] ?? null) : null;
    if (value !== null) check(name, feature, value);
    else if (!mayLack) throw refused("missing-feature", `the context lacks the feature '${name}'.`);
    values.set(name, value);
  }
  const leaves = Object.entries(schema.leaves ?? {});
  if (leaves.length > 1 && leaves.some(([name]) => /^\d+$/.test(name))) {
    // JavaScript puts such names first, so that the order of leaves is lost.
    throw invalid("an experiment whose leaves have features with numbers as names cannot be leased.");
  }
  return leaves.reduce((leaf, [name, cuts]) => {
    const [branches, branch] = branchOf(name, schema.features[name]!, cuts, values.get(name)!, key);
    const all = branches + Number(mayLack && !isListed(schema.features[name]!));
    return leaf * all + (branch ?? all - 1); // what is missing takes the last branch
  }, 0);
}

const isListed = (feature: Feature) => feature.type === "category" && !feature.buckets;

function refused(code: string, sentence: string): ArmraceError {
  return new ArmraceError(sentence, code);
}

function check(name: string, feature: Feature, value: string | boolean | number): void {
  const [kind, words] = {
    number: ["number", "a number"],
    boolean: ["boolean", "true or false"],
    category: ["string", "a text"],
  }[feature.type] as [string, string];
  if (typeof value !== kind) {
    throw refused("bad-feature", `the feature '${name}' must be ${words}; got ${value}.`);
  }
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw refused("bad-feature", `the feature '${name}' must be a finite number; got ${value}.`);
  }
  if (typeof value === "string" && ([...value].length > LONGEST_TEXT || /\p{Cs}/u.test(value))) {
    const limit = `valid Unicode of at most ${LONGEST_TEXT} characters`;
    throw refused("bad-feature", `the feature '${name}' must be ${limit}.`);
  }
}

/** How many values leaves tell apart, and the place of a value, unless it is missing. */
function branchOf(
  name: string,
  feature: Feature,
  cuts: boolean | number[],
  value: string | boolean | number | null,
  key: Buffer,
): [number, number | undefined] {
  if (feature.type === "number") {
    const bounds = cuts as number[];
    const above = bounds.filter((cut) => cut <= (value as number)).length;
    return [bounds.length + 1, value === null ? undefined : above];
  }
  if (feature.type === "boolean") return [2, value === null ? undefined : Number(value)];
  if (feature.buckets) {
    if (value === null) return [feature.buckets, undefined];
    const digest = keyedDigest(Buffer.from(`${name}\x1f${value}`), key);
    return [feature.buckets, Number(digest % BigInt(feature.buckets))];
  }
  const listed = feature.values ?? [];
  const place = listed.indexOf(value as string);
  return [listed.length + 1, place < 0 ? listed.length : place];
}
