/** Random words: uniform integers from the browser's secure source. The only module that touches a random source. */

import { toHex } from "./hash.js";

/** @typedef {import("./index.js").RandomWords} RandomWords */

/** Uniform bytes from the secure source. @param {number} count */
export const randomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** @type {RandomWords} Words from `crypto.getRandomValues`: all that respondents' reports are drawn from. */
export const secureWords = {
  integer(bits) {
    const bytes = randomBytes(Math.ceil(bits / 8));
    return BigInt(`0x${toHex(bytes)}`) >> BigInt(bytes.length * 8 - bits);
  },
};
