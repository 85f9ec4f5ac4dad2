/**
 * Exact numbers on BigInt: fractions, and e^ε between two of them.
 *
 * Every privacy decision compares integers. The only transcendental number is e^ε, which is irrational for a rational
 * ε ≠ 0 (Lindemann): enclosing it more and more tightly always puts a ratio of integers on one side.
 */

/** @typedef {{readonly n: bigint, readonly d: bigint}} Fraction n/d with d > 0, not necessarily in lowest terms. */

/** The fraction n/d, for d > 0. @param {bigint} n @param {bigint} [d] @returns {Fraction} */
export const fraction = (n, d = 1n) => ({ n, d });

/** Negative, zero or positive as a < b, a = b or a > b. @param {Fraction} a @param {Fraction} b */
export const compare = (a, b) => {
  const difference = a.n * b.d - b.n * a.d;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
};

/** The larger of two. @param {Fraction} a @param {Fraction} b */
export const larger = (a, b) => (compare(a, b) >= 0 ? a : b);

/** The smaller of two. @param {Fraction} a @param {Fraction} b */
export const smaller = (a, b) => (compare(a, b) <= 0 ? a : b);

/** a + b. @param {Fraction} a @param {Fraction} b */
export const plus = (a, b) => fraction(a.n * b.d + b.n * a.d, a.d * b.d);

/** a − b. @param {Fraction} a @param {Fraction} b */
export const minus = (a, b) => fraction(a.n * b.d - b.n * a.d, a.d * b.d);

/** a · b. @param {Fraction} a @param {Fraction} b */
export const times = (a, b) => fraction(a.n * b.n, a.d * b.d);

/** a / b for b > 0; null, unbounded, for b = 0. @param {Fraction} a @param {Fraction} b */
export const over = (a, b) => (b.n ? fraction(a.n * b.d, a.d * b.n) : null);

/** ⌊n/d⌋ for d > 0. @param {bigint} n @param {bigint} d */
export const floorDivide = (n, d) => n / d - (n % d < 0n ? 1n : 0n);

/** ⌈n/d⌉ for d > 0. @param {bigint} n @param {bigint} d */
export const ceilDivide = (n, d) => -floorDivide(-n, d);

/** The sum of integers. @param {readonly bigint[]} numbers */
export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0n);

/** The largest of some integers. @param {readonly bigint[]} numbers */
export const largest = (numbers) => numbers.reduce((a, b) => (a > b ? a : b));

/** The least of some integers. @param {readonly bigint[]} numbers */
export const least = (numbers) => numbers.reduce((a, b) => (a < b ? a : b));

/** The running sums of integers, from 0 to their total. @param {readonly bigint[]} numbers */
export function runningSums(numbers) {
  const sums = [0n];
  let total = 0n;
  for (const number of numbers) sums.push((total += number));
  return sums;
}

/**
 * How many running sums, but for the 0 they start from, are at most a word.
 *
 * @param {readonly bigint[]} sums
 * @param {bigint} word
 */
export const rank = (sums, word) => sums.slice(1).filter((part) => part <= word).length;

/** The greatest common divisor of non-negative integers. @param {readonly bigint[]} numbers */
export function gcd(numbers) {
  let divisor = 0n;
  for (let number of numbers) {
    while (number) [divisor, number] = [number, divisor % number];
    if (divisor === 1n) break;
  }
  return divisor;
}

/** The least common multiple of positive integers. @param {readonly bigint[]} numbers */
export const lcm = (numbers) => numbers.reduce((multiple, number) => (multiple / gcd([multiple, number])) * number, 1n);

/** Negative, zero or positive as a < b, a = b or a > b. @param {bigint} a @param {bigint} b */
export const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** The fraction as a float, to about 15 digits. @param {Fraction} x */
export function toNumber({ n, d }) {
  const shift = BigInt(Math.max(0, 64 - n.toString(2).length + d.toString(2).length));
  return shift > 1000n ? 0 : Number((n << shift) / d) / 2 ** Number(shift);
}

/**
 * Integers low ≤ e^ε · 2^bits ≤ high, by Taylor's series with every term rounded down, and up.
 *
 * From the term i ≥ 2ε on, each is at most half of the one before, so the rest is at most twice the next term.
 *
 * @param {Fraction} epsilon at least 0
 * @param {bigint} bits
 * @returns {[bigint, bigint]}
 */
export function expEnclosure(epsilon, bits) {
  let below = 1n << bits;
  let above = below;
  let [low, high] = [0n, 0n];
  for (let i = 1n; ; i++) {
    low += below;
    high += above;
    below = floorDivide(below * epsilon.n, epsilon.d * i);
    above = ceilDivide(above * epsilon.n, epsilon.d * i);
    if (above <= 1n && i * epsilon.d >= 2n * epsilon.n) return [low, high + 2n * above];
  }
}

/** Whether ratio ≤ e^ε, decided exactly. @param {Fraction} ratio @param {Fraction} epsilon at least 0 */
export function atMostExp(ratio, epsilon) {
  if (epsilon.n === 0n) return ratio.n <= ratio.d;
  for (let bits = 64n; ; bits *= 2n) {
    const [low, high] = expEnclosure(epsilon, bits);
    if (ratio.n << bits <= low * ratio.d) return true;
    if (ratio.n << bits >= high * ratio.d) return false;
  }
}
