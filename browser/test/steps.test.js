/** How many steps a draw takes does not depend on the answer, nor on whether the report depends on the answer. */

import assert from "node:assert/strict";
import test from "node:test";
import { ManyValues } from "../mechanism/many_values/many_values.js";
import { RuleSampler } from "../mechanism/stand_in.js";
import { Prior } from "../prior.js";
import { golden } from "./helpers.js";

const readPrior = (weights) => new Prior(weights, "prior", weights.length);

/** How often a draw reads the table of pieces. */
function reads(made, inside, words) {
  const pieces = made.circle.pieceCells;
  let count = 0;
  made.circle.pieceCells = new Proxy(pieces, { get: (target, name) => (count++, Reflect.get(target, name)) });
  made.draw(inside, words);
  made.circle.pieceCells = pieces;
  return count;
}

for (const name of ["plan_many_values", "plan_giants"]) {
  test(`${name}: as many pieces are read for every answer and every word`, () => {
    for (const group of golden(name).plan.blocks[0].groups) {
      const made = ManyValues.fromDict(group.mechanism, readPrior(group.prior), "mechanism", () => {});
      const values = made.places.map((_, inside) => inside);
      const [heavy, light] = [0, values.length - 1].map((place) => values.sort((a, b) => made.places[a] - made.places[b])[place]);
      const last = (1n << BigInt(made.wordBits)) - 1n;
      const counts = [heavy, light].flatMap((inside) =>
        [0n, last].flatMap((first) =>
          [0n, last].flatMap((second) => [0n, last].map((third) => reads(made, inside, [first, second, third]))),
        ),
      );
      assert.ok(counts[0] > made.circle.pieceCells.length);
      assert.deepEqual([...new Set(counts)], [counts[0]]);
    }
  });
}

test("where a prior has zeros, every answer takes the same words", () => {
  const rule = { wordBits: 8, wordsPerReport: 2, draw: (inside) => inside };
  const sampler = new RuleSampler([rule], [readPrior(["3", "0", "1"])]);
  const asked = (x) => {
    const bits = [];
    const report = sampler.one(0, x, { integer: (length) => (bits.push(length), 0n) });
    return { report, bits };
  };
  assert.deepEqual([0, 1, 2].map((x) => asked(x).bits), Array.from({ length: 3 }, () => [64, 8, 8]));
  assert.deepEqual([0, 1, 2].map((x) => asked(x).report), [0, 0, 1]);
});
