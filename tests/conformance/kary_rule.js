/** The browser's part of the toy mechanism of `support/toy.py`: k-ary randomized response as a rule. */

import { Channel } from "../table/table.js";
import { bigInteger, integer, onlyFields } from "../../read.js";
import { RuleSampler } from "../stand_in.js";

export class KaryRule {
  static kind = "kary-rule";
  kind = KaryRule.kind;
  wordsPerReport = 2;

  constructor(size, truth, wordBits) {
    const [words, d] = [1n << BigInt(wordBits), BigInt(size)];
    const other = ((words - truth) * words) / d;
    const row = (x) => Array.from({ length: size }, (_, y) => other + (x === y ? truth * words : 0n));
    const rows = Array.from({ length: size }, (_, x) => row(x));
    /** What it promises is that of the same probabilities written out. */
    this.channel = new Channel(rows, words * words, rows.map((_, y) => y));
    Object.assign(this, { size, truth, wordBits });
  }

  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "truth", "word_bits"]);
    spend(prior.weights.length ** 2);
    const wordBits = integer(data.word_bits, `${where}.word_bits`, 1, 64);
    return new KaryRule(prior.weights.length, bigInteger(data.truth, `${where}.truth`), wordBits);
  }

  static sampler(mechanisms, priors) {
    return new RuleSampler(mechanisms, priors);
  }

  draw(x, [alpha, beta]) {
    return alpha < this.truth ? x : Number((beta * BigInt(this.size)) >> BigInt(this.wordBits));
  }

  get nPossibleReports() {
    return this.size;
  }

  audit = (prior) => this.channel.audit(prior);
  keeps = (prior, notion, epsilon) => this.channel.keeps(prior, notion, epsilon);
  setLevels = (priorSet) => this.channel.setLevels(priorSet);
  belief = (prior, x) => this.channel.belief(prior, x);
  canSend = (report) => report < this.size;
  label = () => null;
  likelihood = () => null;
}
