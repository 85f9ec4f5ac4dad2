/** Only the remembered report leaves, as often as it takes, under one key. */

import assert from "node:assert/strict";
import { createSign, constants, generateKeyPairSync, privateDecrypt, verify } from "node:crypto";
import test from "node:test";
import { CredentialError, SendError, StorageError, openPlan, remembered, respond, send } from "../index.js";
import { golden, memory } from "./helpers.js";

const plan = await openPlan(golden("plan_survey").plan);
const counted = () => Response.json({ status: "counted" });
const problem = (status, detail, headers) =>
  Response.json({ type: "about:blank", title: "No", status, detail }, { status, headers });
const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const { n, e } = publicKey.export({ format: "jwk" });
const credentialKey = { n, e };

/** A browser with a report, and a collector that answers from a list; `calls` is what it was asked. */
async function browser(...answers) {
  const [storage, calls, waits] = [memory(), [], []];
  await respond(plan, { group: "18–29", answers: { value: "yes" } }, { storage });
  const fetch = async (url, options) => {
    calls.push({ url, options, body: JSON.parse(options.body) });
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    return answer(JSON.parse(options.body), url);
  };
  return { storage, calls, waits, options: { storage, fetch, wait: async (time) => waits.push(time) } };
}

/** The collector's side of a blind signature: the raw private operation. */
const sign = (blinded) =>
  privateDecrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, Buffer.from(blinded, "base64url")).toString(
    "base64url",
  );

test("exactly the remembered body is posted, with nothing that identifies", async () => {
  const { storage, calls, options } = await browser(counted);
  const { key, group, report } = await remembered(plan, { storage });
  assert.deepEqual(await send(plan, "/api/surveys/0123456789abcdef/", options), { status: "counted" });
  assert.equal(calls.length, 1);
  assert.equal(calls[0].url, "/api/surveys/0123456789abcdef/reports");
  assert.equal(calls[0].options.body, JSON.stringify({ key, group, report }));
  const { method, headers, credentials, referrerPolicy, cache, redirect } = calls[0].options;
  assert.deepEqual(
    { method, headers, credentials, referrerPolicy, cache, redirect },
    {
      method: "POST",
      headers: { "Content-Type": "application/json", "Tacit-Key": key },
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      redirect: "error",
    },
  );
  assert.equal((await remembered(plan, { storage })).sent.length, 1);
});

test("sending again posts the same body", async () => {
  const { calls, options } = await browser(counted, () => Response.json({ status: "already counted" }));
  await send(plan, "/s", options);
  assert.deepEqual(await send(plan, "/s", options), { status: "already counted" });
  assert.equal(calls[0].options.body, calls[1].options.body);
});

test("passing trouble is tried again under the same key, up to a limit", async () => {
  const down = () => Promise.reject(new TypeError("network"));
  const { storage, calls, waits, options } = await browser(
    down,
    () => problem(503),
    () => problem(429, "Slow down.", { "Retry-After": "7" }),
    counted,
  );
  await send(plan, "/s", options);
  assert.equal(new Set(calls.map(({ options: { body } }) => body)).size, 1);
  assert.equal(calls.length, 4);
  assert.ok(waits[0] >= 250 && waits[0] <= 750 && waits[1] >= 500 && waits[1] <= 1500 && waits[2] === 7000, `${waits}`);
  assert.equal((await remembered(plan, { storage })).sent.length, 1);
  for (const status of [0, 408, 425, 429, 500, 502, 599]) {
    const broken = await browser(status ? () => problem(status, "Still no.", { "Retry-After": "soon" }) : down);
    await assert.rejects(
      send(plan, "/s", { ...broken.options, attempts: 3 }),
      (error) => error instanceof SendError && error.status === status,
    );
    assert.equal(broken.calls.length, 3);
    assert.equal((await remembered(plan, broken)).sent.length, 0);
  }
});

test("a refusal is told once, in the collector's words", async () => {
  for (const status of [400, 401, 404, 409, 413, 415, 422]) {
    const { storage, calls, options } = await browser(() => problem(status, "This survey is closed."));
    await assert.rejects(send(plan, "/s", options), { name: "SendError", status, message: "This survey is closed." });
    assert.equal(calls.length, 1);
    assert.equal((await remembered(plan, { storage })).sent.length, 0);
  }
  const { options } = await browser(() => new Response("<html>", { status: 403 }));
  await assert.rejects(send(plan, "/s", options), /status 403/);
});

test("a captive portal is not the collector", async () => {
  for (const answer of [
    () => new Response("<html>welcome"),
    () => Response.json(null),
    () => Response.json({ status: "ok" }),
    () => Response.json([]),
  ]) {
    const { storage, options } = await browser(answer);
    await assert.rejects(send(plan, "/s", options), /not the collector/);
    assert.equal((await remembered(plan, { storage })).sent.length, 0);
  }
});

test("there must be a report to send", async () => {
  await assert.rejects(send(plan, "/s", { storage: memory(), fetch: counted }), StorageError);
});

test("an invitation becomes a credential that the collector cannot link", async () => {
  const { storage, calls, options } = await browser(
    (body) => Response.json({ blind_signature: sign(body.blinded) }),
    counted,
  );
  await send(plan, "/s", { ...options, invitation: "token", credentialKey });
  assert.deepEqual(
    calls.map(({ url }) => url),
    ["/s/credentials", "/s/reports"],
  );
  assert.deepEqual(Object.keys(calls[0].body), ["invitation", "blinded"]);
  assert.equal(calls[0].body.invitation, "token");
  const { key, group, report, credential, ...rest } = calls[1].body;
  assert.deepEqual(rest, {});
  assert.deepEqual({ key, group, report, sent: ["/s"] }, await remembered(plan, { storage }));
  const padding = { key: publicKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 48 };
  assert.ok(verify("sha384", Buffer.from(key), padding, Buffer.from(credential, "base64url")));
  assert.ok(!JSON.stringify(calls[0].body).includes(key));
  const [[stored]] = Object.values(JSON.parse([...storage.data.values()][0]).reports);
  assert.deepEqual(Object.keys(stored).sort(), [
    "belief",
    "credential",
    "group",
    "key",
    "report",
    "sent",
  ]);
});

test("after a crash the same blinded message is sent again, and after a credential none", async () => {
  const signed = (body) => Response.json({ blind_signature: sign(body.blinded) });
  const lost = () => Promise.reject(new TypeError("the answer is lost"));
  const { calls, options } = await browser(lost, signed, lost, counted);
  const invited = { ...options, invitation: "token", credentialKey, attempts: 1 };
  await assert.rejects(send(plan, "/s", invited), SendError);
  await assert.rejects(send(plan, "/s", invited), SendError);
  await send(plan, "/s", invited);
  assert.deepEqual(
    calls.map(({ url }) => url),
    ["/s/credentials", "/s/credentials", "/s/reports", "/s/reports"],
  );
  assert.equal(calls[0].options.body, calls[1].options.body);
  assert.equal(calls[2].options.body, calls[3].options.body);
});

test("what is not the collector's signature is refused, and no report leaves", async () => {
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" });
  const answers = [
    () => Response.json({ blind_signature: "AAAA" }),
    () => Response.json({}),
    () => Response.json({ blind_signature: 7 }),
    () => Response.json({ blind_signature: createSign("sha384").update("x").sign(privateKey).toString("base64url") }),
  ];
  for (const answer of answers) {
    const { calls, options } = await browser(answer);
    await assert.rejects(send(plan, "/s", { ...options, invitation: "token", credentialKey }), CredentialError);
    assert.equal(calls.length, 1);
  }
  const { calls, options } = await browser(
    () => Promise.reject(new TypeError("lost")),
    (body) => Response.json({ blind_signature: sign(body.blinded) }),
  );
  const invited = { ...options, invitation: "token", attempts: 1 };
  await assert.rejects(send(plan, "/s", { ...invited, credentialKey }), SendError);
  await assert.rejects(send(plan, "/s", { ...invited, credentialKey: { n: other.n, e } }), /key changed/);
  assert.ok(calls.every(({ url }) => url === "/s/credentials"));
});

test("a spent invitation is told in the collector's words", async () => {
  const { options } = await browser(() => problem(409, "This invitation was used already."));
  await assert.rejects(send(plan, "/s", { ...options, invitation: "token", credentialKey }), {
    status: 409,
    message: /used already/,
  });
});
