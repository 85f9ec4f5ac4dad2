/**
 * Blind credentials: RSABSSA-SHA384-PSS-Deterministic of RFC 9474, by its function names.
 *
 * The browser blinds the report's key, the collector signs without seeing it, and the browser unblinds the signature:
 * it shows that the report was invited and not which invitation it came from.
 */

import { CredentialError } from "./errors.js";
import { toHex } from "./hash.js";
import { randomBytes, secureWords } from "./words.js";

/** @typedef {import("./index.js").PublicKey} PublicKey */
/** @typedef {{n: string, blinded: string, inverse: string}} Pending what must be kept until the signature comes back */

const SALT = 48;
const [MIN_BITS, MAX_BITS] = [2048, 8192];

/**
 * A message blinded for the key's owner, and the inverse that unblinds the signature.
 *
 * @param {PublicKey} key
 * @param {string | Uint8Array} message a text in UTF-8
 * @param {{salt?: Uint8Array, factor?: bigint}} [random] for tests against known values only
 * @returns {Promise<Pending>}
 */
export async function blind(key, message, { salt = randomBytes(SALT), factor } = {}) {
  const { n, e, bits } = readKey(key);
  const encoded = toInteger(await encodePss(toMessage(message), bits - 1, salt));
  const r = factor ?? unit(n, bits);
  const inverse = invert(r, n);
  if (!inverse || !invert(encoded, n)) throw new CredentialError("This message cannot be blinded for this key.");
  const blinded = (encoded * power(r, e, n)) % n;
  return { n: key.n, blinded: toBase64(toBytes(blinded, bits)), inverse: toBase64(toBytes(inverse, bits)) };
}

/**
 * The credential: the collector's signature of the message, in base64url; refused unless it verifies.
 *
 * @param {PublicKey} key
 * @param {string | Uint8Array} message
 * @param {unknown} blindSignature in base64url
 * @param {Pending} pending
 */
export async function finalize(key, message, blindSignature, pending) {
  const { n, bits } = readKey(key);
  if (key.n !== pending.n) throw new CredentialError("The collector's key changed since the credential was asked for.");
  const signed = toInteger(fromBase64(blindSignature));
  const signature = toBytes((signed * toInteger(fromBase64(pending.inverse))) % n, bits);
  if (!(await verify(key, message, signature)))
    throw new CredentialError("What the collector returned is not its signature of this credential.");
  return toBase64(signature);
}

/**
 * Whether a signature is the key owner's, by the browser's own RSA-PSS.
 *
 * @param {PublicKey} key
 * @param {string | Uint8Array} message
 * @param {BufferSource} signature
 */
async function verify(key, message, signature) {
  const algorithm = { name: "RSA-PSS", hash: "SHA-384" };
  const jwk = { kty: "RSA", alg: "PS384", ext: true, n: key.n, e: key.e };
  const imported = await crypto.subtle.importKey("jwk", jwk, algorithm, false, ["verify"]);
  return crypto.subtle.verify({ name: "RSA-PSS", saltLength: SALT }, imported, signature, toMessage(message));
}

/**
 * EMSA-PSS-ENCODE of RFC 8017, section 9.1.1, with SHA-384 and MGF1.
 *
 * @param {Uint8Array} message
 * @param {number} bits
 * @param {Uint8Array} salt
 */
async function encodePss(message, bits, salt) {
  const length = Math.ceil(bits / 8);
  const digest = await sha384(new Uint8Array(8), await sha384(message), salt);
  const block = new Uint8Array(length - digest.length - 1);
  block[block.length - salt.length - 1] = 1;
  block.set(salt, block.length - salt.length);
  const mask = await mgf1(digest, block.length);
  const masked = block.map((byte, i) => byte ^ mask[i]);
  masked[0] &= 0xff >> (8 * length - bits);
  return join(masked, digest, Uint8Array.of(0xbc));
}

/** A mask of `length` bytes from a seed: RFC 8017, appendix B.2.1. @param {Uint8Array} seed @param {number} length */
async function mgf1(seed, length) {
  const parts = [];
  for (let counter = 0; parts.length * 48 < length; counter++)
    parts.push(await sha384(seed, Uint8Array.of(0, 0, 0, counter)));
  return join(...parts).subarray(0, length);
}

/** SHA-384 of some bytes after each other. @param {...Uint8Array} parts */
const sha384 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-384", join(...parts)));

/** Bytes after each other. @param {...Uint8Array} parts */
function join(...parts) {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** The key's integers, if their sizes are sensible. @param {PublicKey} key */
function readKey(key) {
  const [n, e] = [key?.n, key?.e].map((part) => toInteger(fromBase64(part)));
  const bits = n.toString(2).length;
  const sensible = bits >= MIN_BITS && bits <= MAX_BITS && n % 2n === 1n && e >= 3n && e < 1n << 32n && e % 2n === 1n;
  if (!sensible) throw new CredentialError(`The collector's key must be RSA of ${MIN_BITS} to ${MAX_BITS} bits.`);
  return { n, e, bits };
}

/** A uniform integer from 1 to n − 1. @param {bigint} n @param {number} bits */
function unit(n, bits) {
  for (;;) {
    const candidate = secureWords.integer(bits);
    if (candidate > 0n && candidate < n) return candidate;
  }
}

/** base^exponent mod n. @param {bigint} base @param {bigint} exponent @param {bigint} n */
function power(base, exponent, n) {
  let result = 1n;
  for (let square = base % n; exponent > 0n; exponent >>= 1n, square = (square * square) % n) {
    if (exponent & 1n) result = (result * square) % n;
  }
  return result;
}

/** The inverse mod n, or 0 if there is none: Euclid's algorithm. @param {bigint} x @param {bigint} n */
function invert(x, n) {
  let [a, b, s, t] = [n, x % n, 0n, 1n];
  while (b) [a, b, s, t] = [b, a % b, t, s - (a / b) * t];
  return a === 1n ? ((s % n) + n) % n : 0n;
}

/** A message in bytes. @param {string | Uint8Array} message */
const toMessage = (message) =>
  typeof message === "string" ? new TextEncoder().encode(message) : new Uint8Array(message);

/** @param {Uint8Array} bytes */
const toInteger = (bytes) => BigInt(`0x0${toHex(bytes)}`);

/** An integer as big-endian bytes of a number of `bits` bits. @param {bigint} integer @param {number} bits */
function toBytes(integer, bits) {
  const length = Math.ceil(bits / 8);
  const hex = integer.toString(16).padStart(2 * length, "0");
  return Uint8Array.from({ length }, (_, i) => parseInt(hex.slice(2 * i, 2 * i + 2), 16));
}

/** @param {Uint8Array} bytes */
const toBase64 = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

/** @param {unknown} text */
function fromBase64(text) {
  if (typeof text !== "string" || text.length > MAX_BITS || !/^[A-Za-z0-9_-]+$/.test(text) || text.length % 4 === 1) {
    throw new CredentialError("The collector's credential data must be base64url.");
  }
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
}
