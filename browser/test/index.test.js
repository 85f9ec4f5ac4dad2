/** The package: what is exported is what is declared, and nothing else is needed. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { posix } from "node:path";
import test from "node:test";
import * as client from "../index.js";
import { golden, memory } from "./helpers.js";

const folder = new URL("../", import.meta.url);
const read = (name) => readFileSync(new URL(name, folder), "utf8");
const mechanisms = readdirSync(new URL("mechanism", folder), { recursive: true });
const modules = [...readdirSync(folder), ...mechanisms.map((name) => `mechanism/${name}`)].filter((name) => name.endsWith(".js"));

test("index.d.ts declares the exports of index.js", () => {
  const declared = [...read("index.d.ts").matchAll(/^export (?:function|class) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.keys(client).sort());
});

test("modules import each other only, by relative paths", () => {
  assert.ok(modules.length > 10);
  for (const name of modules) {
    for (const [, source] of read(name).matchAll(/from "([^"]+)"/g)) {
      assert.match(source, /^\.\.?\//);
      assert.ok(modules.includes(posix.join(posix.dirname(name), source)));
    }
    assert.doesNotMatch(read(name), /\beval\b|new Function|document\.|innerHTML|https?:/);
  }
  assert.equal(JSON.parse(read("package.json")).dependencies, undefined);
});

test("only words.js touches the secure source, and only backoff uses Math.random", () => {
  const touching = (pattern) => modules.filter((name) => pattern.test(read(name).replace(/\/\*\*[\s\S]*?\*\//g, "")));
  assert.deepEqual(touching(/getRandomValues/), ["words.js"]);
  assert.deepEqual(touching(/Math\.random/), ["send.js"]);
});

test("words of any length are uniform", async () => {
  const { secureWords } = await import("../words.js");
  for (const bits of [1, 5, 8, 32, 63, 64, 96, 257]) {
    const words = Array.from({ length: 4000 }, () => secureWords.integer(bits));
    assert.ok(words.every((word) => word >= 0n && word < 1n << BigInt(bits)));
    for (let bit = 0n; bit < BigInt(bits); bit++) {
      const ones = words.filter((word) => (word >> bit) & 1n).length;
      // 6.5 standard deviations: a fair bit fails with probability 1e-10.
      assert.ok(Math.abs(ones - 2000) < 206, `bit ${bit} of ${bits}: ${ones}`);
    }
  }
});

test("the example in the README works", async (t) => {
  const { plan } = golden("plan_histogram");
  const before = { fetch: globalThis.fetch, localStorage: Object.getOwnPropertyDescriptor(globalThis, "localStorage") };
  t.after(() => {
    globalThis.fetch = before.fetch;
    delete globalThis.localStorage;
    if (before.localStorage) Object.defineProperty(globalThis, "localStorage", before.localStorage);
  });
  const posted = [];
  globalThis.fetch = async (url, options) => {
    if (!options) return Response.json(plan);
    posted.push([url, options.body]);
    return Response.json({ status: "counted" });
  };
  const storage = memory();
  Object.defineProperty(globalThis, "localStorage", { value: storage, configurable: true });
  const said = t.mock.method(console, "log", () => {});
  const [, code] = /```js\n([\s\S]*?)```/.exec(read("README.md"));
  await import(
    `data:text/javascript,${encodeURIComponent(code.replace("tacit-client", new URL("index.js", folder).href))}`
  );
  const known = await client.remembered(await client.openPlan(plan), { storage });
  assert.deepEqual(known.sent, ["/api/surveys/0123456789abcdef"]);
  const { key, group, report } = known;
  assert.deepEqual(posted, [["/api/surveys/0123456789abcdef/reports", JSON.stringify({ key, group, report })]]);
  assert.deepEqual(said.mock.calls.at(-1).arguments, [{ status: "counted" }]);
});
