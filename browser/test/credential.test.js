/** Blind signatures: the published test vector, node's own RSA, and keys and signatures that must be refused. */

import assert from "node:assert/strict";
import { constants, generateKeyPairSync, privateDecrypt, verify } from "node:crypto";
import test from "node:test";
import { blind, finalize } from "../credential.js";
import { CredentialError } from "../index.js";
import { golden } from "./helpers.js";

const base64 = (hex) => Buffer.from(hex, "hex").toString("base64url");

test("RFC 9474, appendix A.3, byte for byte", async () => {
  const { n, e, msg, salt, inv, blinded_msg, blind_sig, sig } = golden("rfc9474");
  const key = { n: base64(n), e: base64(e) };
  // The blinding factor r is the inverse of the published inv, and inv that of r.
  const factor = inverse(BigInt(`0x${inv}`), BigInt(`0x${n}`));
  const pending = await blind(key, Buffer.from(msg, "hex"), { salt: Buffer.from(salt, "hex"), factor });
  assert.equal(pending.blinded, base64(blinded_msg));
  assert.equal(pending.inverse, base64(inv));
  assert.equal(await finalize(key, Buffer.from(msg, "hex"), base64(blind_sig), pending), base64(sig));
});

for (const modulusLength of [2048, 2049, 2055, 3072]) {
  test(`a key of ${modulusLength} bits: blinded, signed by node, unblinded, verified by node`, async () => {
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength });
    const { n, e } = publicKey.export({ format: "jwk" });
    const message = "0123456789abcdef0123456789abcdef";
    const pending = await blind({ n, e }, message);
    const signed = privateDecrypt(
      { key: privateKey, padding: constants.RSA_NO_PADDING },
      Buffer.from(pending.blinded, "base64url"),
    );
    const credential = await finalize({ n, e }, message, signed.toString("base64url"), pending);
    const options = { key: publicKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 48 };
    assert.ok(verify("sha384", Buffer.from(message), options, Buffer.from(credential, "base64url")));
    assert.ok(!verify("sha384", Buffer.from("another"), options, Buffer.from(credential, "base64url")));
    await assert.rejects(finalize({ n, e }, "another", signed.toString("base64url"), pending), CredentialError);
    signed[signed.length - 1] ^= 1;
    await assert.rejects(finalize({ n, e }, message, signed.toString("base64url"), pending), CredentialError);
    await assert.rejects(finalize({ n, e }, message, n, pending), CredentialError);
  });
}

test("blinding twice shows nothing twice", async () => {
  const { n, e } = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" });
  const [first, second] = [await blind({ n, e }, "m"), await blind({ n, e }, "m")];
  assert.notEqual(first.blinded, second.blinded);
  assert.notEqual(first.inverse, second.inverse);
});

test("keys that are no RSA keys of a sensible size are refused", async () => {
  const { n } = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" });
  const small = generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey.export({ format: "jwk" });
  const keys = [
    null,
    {},
    { n },
    { n, e: 3 },
    { n, e: "AQ" },
    { n, e: "AAAA" },
    { n, e: "AQAC" },
    { n, e: "/w==" },
    { n, e: "A" },
    { n: "", e: "AQAB" },
    { n: "é", e: "AQAB" },
    { n: n.slice(0, 43), e: "AQAB" },
    { n: small.n, e: small.e },
    { n: "f".repeat(9000), e: "AQAB" },
    { n, e: "f".repeat(40) },
  ];
  for (const key of keys) await assert.rejects(blind(key, "m"), CredentialError);
});

/** The inverse of x mod n, by Euclid. */
function inverse(x, n) {
  let [a, b, s, t] = [n, x, 0n, 1n];
  while (b) [a, b, s, t] = [b, a % b, t, s - (a / b) * t];
  return ((s % n) + n) % n;
}
