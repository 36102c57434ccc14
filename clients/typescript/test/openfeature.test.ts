/** The official providers of OpenFeature, which know nothing of armrace, against a real server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { OpenFeature } from "@openfeature/server-sdk";
import { OpenFeature as Web } from "@openfeature/web-sdk";
import { Client } from "../src/index.js";

const baseUrl = process.env["ARMRACE_ADDRESS"]!;

test("a server evaluates flags, and sends rewards by their metadata", async () => {
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl }));
  const flags = OpenFeature.getClient();
  const visitor = { targetingKey: "visitor 17", device: "ios" };
  const banner = await flags.getStringDetails("flags", "none", visitor);
  assert.ok(["red", "green"].includes(banner.value));
  assert.deepEqual([banner.variant, banner.reason], [banner.value, "SPLIT"]);
  assert.deepEqual(await flags.getStringDetails("flags", "none", visitor), banner);
  const client = new Client({ address: baseUrl });
  assert.equal(await client.reward(banner.flagMetadata["decision"] as string, 1), "accepted");
  assert.equal(typeof (await flags.getBooleanValue("switch", false, visitor)), "boolean");
  const codes = [];
  for (const [flag, context] of [["nothing", visitor], ["flags", {}], ["leafy", visitor]] as const) {
    const found = await flags.getStringDetails(flag, "mine", context);
    assert.equal(found.value, "mine");
    codes.push(found.errorCode);
  }
  assert.deepEqual(codes, ["FLAG_NOT_FOUND", "TARGETING_KEY_MISSING", "INVALID_CONTEXT"]);
});

test("a page gets the flags that it names, and they stay as they are", async () => {
  const statuses: number[] = [];
  const fetchImplementation: typeof fetch = async (...request) => {
    const response = await fetch(...request);
    statuses.push(response.status);
    return response;
  };
  const provider = new OFREPWebProvider({
    baseUrl,
    fetchImplementation,
    pollInterval: 20,
    cacheMode: "disabled",
  });
  const armrace = { experiments: ["flags", "stopped"] };
  await Web.setProviderAndWait(provider, { targetingKey: "visitor 18", armrace });
  const flags = Web.getClient();
  const banner = flags.getStringDetails("flags", "none");
  assert.ok(["red", "green"].includes(banner.value));
  assert.equal(flags.getStringDetails("switch", "none").errorCode, "FLAG_NOT_FOUND");
  assert.equal(flags.getStringDetails("stopped", "none").value, "none");
  while (statuses.length < 4) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual(statuses.slice(0, 4), [200, 304, 304, 304]);
  assert.equal(flags.getStringDetails("flags", "none").value, banner.value);
  await Web.close();
});
