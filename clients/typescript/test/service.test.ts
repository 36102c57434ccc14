/** The client against a real server, which the tests of the Python package start. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ArmraceError, Client, LeasedDecision, ServiceUnreachable, type Decision } from "../src/index.js";

const address = process.env["ARMRACE_ADDRESS"]!;

/** Sends requests, and loses the answers of those to some addresses whose number is listed. */
function losing(lost: number[], where = ""): typeof fetch {
  let count = 0;
  return async (...request) => {
    const response = await fetch(...request);
    if (String(request[0]).endsWith(where) && lost.includes(++count)) throw new TypeError("the answer was lost");
    return response;
  };
}

const decisions = (client: Client, count: number) =>
  Promise.all(Array.from({ length: count }, () => client.decide("rewards")));

const code = (expected: string) => (error: unknown) =>
  error instanceof ArmraceError && error.code === expected;

test("a unit sees one arm, and a reward counts once", async () => {
  const client = new Client({ address, fetch: losing([1, 7]) });
  const first = await client.decide("decisions", { unit: "u1", source: "s", labels: { a: "b" } });
  assert.ok(["red", "green"].includes(first.arm));
  assert.equal(first.probability, 0.5);
  const again = await client.decide("decisions", { unit: "u1" });
  assert.deepEqual([again.decision, again.repeated], [first.decision, true]);
  assert.equal(await client.reward(first, 1), "accepted");
  assert.equal(await client.reward(first.decision, 1), "duplicate");
  await assert.rejects(client.reward(first, 0), code("reward-conflict"));
  const { decisions, refusals } = await client.decideBatch("decisions", [{}, { eligible: ["blue"] }]);
  assert.equal(decisions[1], null);
  assert.deepEqual([refusals[0]!.member, refusals[0]!.code], [1, "invalid-parameter"]);
  const said = await client.rewardBatch([
    { decision: decisions[0]!, value: 1 },
    { decision: "forged", value: 1 },
  ]);
  assert.deepEqual(said.map((each) => each.status), ["accepted", "unknown"]);
  assert.equal((await client.record("decisions", "green", { unit: "editor" })).arm, "green");
  const view = await client.send<{ decisions: number }>("GET", "/v1/experiments/decisions");
  assert.equal(view.decisions, 3);
});

test("what cannot be sent or answered is an error that says why", async () => {
  const client = new Client({ address });
  await assert.rejects(client.decide("nothing"), code("unknown-name"));
  await assert.rejects(client.decide(".."), code("invalid-parameter"));
  await assert.rejects(client.decide("a/b"), code("not-found"));
  await assert.rejects(client.reward("x", NaN), code("invalid-parameter"));
  assert.throws(() => new Client({ address, key: "a b" }), code("invalid-parameter"));
  assert.throws(() => new Client({ address: "localhost" }), code("invalid-parameter"));
  const away = new Client({ address: "http://127.0.0.1:9", retries: 1 });
  await assert.rejects(away.decide("decisions"), ServiceUnreachable);
  const page = new Client({ address, fetch: async () => new Response("<html>") });
  await assert.rejects(page.decide("decisions"), /not a service of armrace/);
});

test("a service that asks to wait is asked again", async () => {
  const statuses = [503, 429];
  const busy: typeof fetch = async (...request) => {
    const status = statuses.shift();
    return status ? new Response("", { status }) : fetch(...request);
  };
  assert.ok((await new Client({ address, fetch: busy }).decide("decisions")).arm);
  assert.equal(statuses.length, 0);
});

test("a queue sends every reward once, whatever is lost on the way", async () => {
  const made = await decisions(new Client({ address }), 40);
  const client = new Client({ address, fetch: losing([1, 2, 4]), retries: 0 });
  const queue = client.queue({ room: 8 });
  for (const decision of made) await queue.put({ decision, value: 1, source: "queue" });
  await queue.put({ decision: "forged", value: 1 });
  await queue.put({ decision: made[0]!, value: 0.5 });
  await queue.close();
  const statuses = queue.refused.map(([, answer]) => answer.status).sort();
  assert.deepEqual(statuses, ["conflict", "unknown"]);
  assert.throws(() => queue.offer({ decision: "x", value: 1 }), /closed/);
});

test("a queue says what it could not send", async () => {
  const client = new Client({ address: "http://127.0.0.1:9", retries: 0 });
  const queue = client.queue({ room: 1, whenFull: "throw" });
  await queue.put({ decision: "x", value: 1 });
  await queue.put({ decision: "y", value: 1 }); // the first one is on its way
  await assert.rejects(queue.put({ decision: "z", value: 1 }), code("too-many-open"));
  await assert.rejects(queue.close(100), /2 rewards could not be sent/);
  const revoked = async () => Response.json({ code: "forbidden", message: "no." }, { status: 403 });
  const other = new Client({ address, fetch: revoked }).queue();
  for (const decision of ["x", "y"]) await other.put({ decision, value: 1 });
  await assert.rejects(other.close(), code("forbidden"));
  assert.equal(other.refused.length, 2);
});

for (const name of ["leased", "leafy"]) {
  test(`${name}: decisions are drawn here, and each is reported once with its reward`, async () => {
    const client = new Client({ address, fetch: losing([1, 2, 4], "/report"), retries: 0 });
    // Of 20 visits, so that leases are replaced on the way.
    const experiment = client.leased(name, { visits: 20, linger: 20 });
    const made: LeasedDecision[] = [];
    for (let round = 0; round < 5; round++) {
      const visits = Array.from({ length: 16 }, (_, n) => {
        const context = { device: ["ios", "web", "tv"][n % 3]!, age: 10 * n, city: `city ${n}` };
        return name === "leafy" ? { context } : {};
      });
      made.push(...(await Promise.all(visits.map((visit) => experiment.decide(visit)))));
      for (const each of made) if (each.arm === "red") each.reward(1);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    assert.throws(() => made.find((each) => each.arm === "red")!.reward(0), code("reward-conflict"));
    if (name === "leafy") await assert.rejects(experiment.decide({}), code("missing-feature"));
    await experiment.close();
    assert.deepEqual(experiment.refused, []);
    assert.ok(made.every((each) => each.decision !== null));
    // The service has drawn each visit again; those of its arms that it rewards are red.
    const late = made.filter((each) => each.arm === "green");
    const rewards = late.map((each) => ({ decision: each.decision!, value: 0, source: "green" }));
    const answers = await client.rewardBatch(rewards);
    assert.deepEqual(new Set(answers.map((each) => each.status)), new Set(["accepted"]));
  });
}

test("an experiment that cannot be leased says so, and is not asked all the time", async () => {
  let count = 0;
  const counting: typeof fetch = (...request) => (count++, fetch(...request));
  const experiment = new Client({ address, fetch: counting }).leased("unleasable");
  for (let n = 0; n < 5; n++) {
    await assert.rejects(experiment.decide(), code("invalid-parameter"));
  }
  assert.equal(count, 1);
  await experiment.close();
});

test("decisions of many calls at once are all different", async () => {
  const made: Decision[] = await decisions(new Client({ address }), 50);
  assert.equal(new Set(made.map((each) => each.decision)).size, 50);
});
