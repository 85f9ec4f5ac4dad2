/** How many steps a draw takes does not depend on the answer, nor on whether the report depends on the answer. */

import assert from "node:assert/strict";
import test from "node:test";
import { PlaneCircle } from "../mechanism/circle/plane_circle.js";
import { ShuffledCircle } from "../mechanism/circle/shuffled_circle.js";
import { RuleSampler } from "../mechanism/stand_in.js";
import { Prior } from "../prior.js";
import { golden } from "./helpers.js";

const readPrior = (weights) => new Prior(weights, "prior", weights.length);

/** How often a draw reads the table of pieces. */
function reads(circle, inside, words) {
  const pieces = circle.pieceCells;
  let count = 0;
  circle.pieceCells = new Proxy(pieces, { get: (target, name) => (count++, Reflect.get(target, name)) });
  circle.draw(inside, words);
  circle.pieceCells = pieces;
  return count;
}

for (const [name, Kind] of [
  ["plan_large_shuffled_circle", ShuffledCircle],
  ["plan_plane_circle", PlaneCircle],
]) {
  test(`${name}: as many pieces are read for every answer and every word`, () => {
    const [group] = golden(name).plan.groups;
    const circle = Kind.fromDict(group.mechanism, readPrior(group.prior), "mechanism", () => {});
    const heavy = circle.pieces.indexOf(Math.max(...circle.pieces));
    const light = circle.pieces.lastIndexOf(1);
    assert.ok(circle.pieces[heavy] > 1);
    const last = (1n << BigInt(circle.wordBits)) - 1n;
    const counts = [heavy, light].flatMap((inside) =>
      [0n, last].flatMap((first) => [0n, last].map((second) => reads(circle, inside, [first, second]))),
    );
    assert.ok(counts[0] > circle.pieceCells.length);
    assert.deepEqual([...new Set(counts)], [counts[0]]);
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
