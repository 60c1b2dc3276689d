// Writes the Unicode facts that src/data/tokenizer needs, taken from the Unicode version of the Node
// that runs this (README.md). Run: node tools/unicode_tables/generate.mjs
//
// Node has no table of combining classes, but it can sort marks: NFD swaps two neighbouring marks
// exactly when the class of the first is the larger one and neither is 0. Only the order and the
// equality of classes matter, so classes are numbered 1, 2, 3... in that order.

import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const LAST = 0x10ffff;
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
const CATEGORIES = [
  "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
  "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co",
];
const SCRIPTS = [
  "Arabic", "Bengali", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana",
  "Katakana", "Khmer", "Lao", "Latin", "Myanmar", "Tamil", "Thai",
];

// A number, lowest five bits first; a digit of 32 or more says that another follows.
function number(value) {
  let text = "";
  while (value >= 32) {
    text += DIGITS[32 + (value % 32)];
    value = Math.floor(value / 32);
  }
  return text + DIGITS[value];
}

const signed = (value) => number(value < 0 ? -2 * value - 1 : 2 * value);
const surrogate = (point) => point >= 0xd800 && point <= 0xdfff;
const hangul = (point) => point >= 0xac00 && point <= 0xd7a3;
const points = (text) => Array.from(text, (character) => character.codePointAt(0));
const text = (...list) => String.fromCodePoint(...list);

function categoryRuns() {
  const tests = CATEGORIES.map((name) => new RegExp(`^\\p{${name}}$`, "u"));
  const category = (point) => tests.findIndex((test) => test.test(text(point)));
  let packed = "";
  let start = 0;
  let current = category(0);
  for (let point = 1; point <= LAST + 1; ++point) {
    const next = point > LAST ? -1 : category(point);
    if (next !== current) {
      packed += number((point - start - 1) * 32 + current);
      start = point;
      current = next;
    }
  }
  return packed;
}

// Lengths of runs outside and inside the set, in turn, beginning outside.
function ranges(pattern) {
  const test = new RegExp(`^${pattern}$`, "u");
  let packed = "";
  let start = 0;
  let inside = false;
  for (let point = 0; point <= LAST; ++point) {
    if (test.test(text(point)) !== inside) {
      packed += number(point - start);
      start = point;
      inside = !inside;
    }
  }
  return inside ? packed + number(LAST + 1 - start) : packed;
}

// (distance from the last code point, change of the distance to its lower case)
function lowerCase() {
  let packed = "";
  let last = 0;
  let offset = 0;
  for (let point = 0x80; point <= LAST; ++point) {
    const lower = surrogate(point) ? [point] : points(text(point).toLowerCase());
    if (lower.length > 1) {
      if (point !== 0x130) throw new Error(`a lower case of several letters: ${point}`);
    } else if (lower[0] !== point) {
      packed += number(point - last) + signed(lower[0] - point - offset);
      last = point;
      offset = lower[0] - point;
    }
  }
  return packed;
}

// The character that `parts` are the decomposition of: what NFC makes of them or, where it leaves
// them apart, the one that NFD takes apart so.
function wholeOf(parts) {
  const composed = points(parts.normalize("NFC"));
  if (composed.length === 1) return composed[0];
  for (let point = 0x80; point <= LAST; ++point) {
    if (!surrogate(point) && text(point).normalize("NFD") === parts) return point;
  }
  throw new Error(`no character decomposes into ${points(parts)}`);
}

// (distance from the last code point * 4 + kind, change of first, change of second if there is one)
// kind: 0 a single one, 1 a pair that NFC does not put together again, 2 a pair that it does
function decompositions() {
  let packed = "";
  let last = 0;
  let first = 0;
  let second = 0;
  for (let point = 0x80; point <= LAST; ++point) {
    if (surrogate(point) || hangul(point)) continue;
    const whole = text(point);
    const parts = points(whole.normalize("NFD"));
    if (parts.length === 1 && parts[0] === point) continue;
    let kind = 0;
    if (parts.length > 1) {
      kind = whole.normalize("NFC") === whole ? 2 : 1;
    }
    const from = kind === 0 ? parts[0] : wholeOf(text(...parts.slice(0, -1)));
    packed += number((point - last) * 4 + kind) + signed(from - first);
    last = point;
    first = from;
    if (kind > 0) {
      packed += signed(parts.at(-1) - second);
      second = parts.at(-1);
    }
  }
  return packed;
}

// What NFKD takes apart and NFD does not, whole:
// (distance from the last code point, how many parts, each as the change from the part before)
function compatibility() {
  let packed = "";
  let last = 0;
  let before = 0;
  for (let point = 0x80; point <= LAST; ++point) {
    if (surrogate(point) || hangul(point)) continue;
    const parts = points(text(point).normalize("NFKD"));
    if (text(point).normalize("NFD") === text(...parts)) continue;
    packed += number(point - last) + number(parts.length);
    last = point;
    for (const part of parts) {
      packed += signed(part - before);
      before = part;
    }
  }
  return packed;
}

// (distance from the end of the last run, length - 1, class)
function combiningClasses() {
  const swaps = (left, right) => text(left, right).normalize("NFD") !== text(left, right);
  const marks = [];
  for (let point = 0x300; point <= LAST; ++point) {
    if (surrogate(point) || hangul(point) || text(point).normalize("NFD") !== text(point)) continue;
    if (swaps(point, 0x334) || swaps(0x345, point)) marks.push(point);
  }
  const classes = [];  // one mark of each, in order
  const place = (mark) => {
    let low = 0;
    while (low < classes.length && swaps(mark, classes[low])) ++low;
    return low;
  };
  for (const mark of marks) {
    const low = place(mark);
    if (low === classes.length || swaps(classes[low], mark)) classes.splice(low, 0, mark);
  }
  let packed = "";
  let end = 0;
  for (let i = 0; i < marks.length; ) {
    const own = place(marks[i]);
    let length = 1;
    while (marks[i + length] === marks[i] + length && place(marks[i + length]) === own) ++length;
    packed += number(marks[i] - end) + number(length - 1) + number(own + 1);
    end = marks[i] + length;
    i += length;
  }
  return packed;
}

function constant(name, packed) {
  const lines = packed.match(/.{1,94}/g).map((line) => `    "${line}"`);
  return `constexpr std::string_view ${name} =\n${lines.join("\n")};\n`;
}

const version = process.versions.unicode;
const folder = join(dirname(fileURLToPath(import.meta.url)), "../../src/data/tokenizer");
const head = (what) =>
  `// ${what} of Unicode ${version}, packed by tools/unicode_tables/generate.mjs (see its README.md).\n\n`;

writeFileSync(join(folder, "unicode_categories.inc"), [
  head("General categories, scripts and letter case"),
  constant("kCategoryRuns", categoryRuns()), "\n",
  ...SCRIPTS.flatMap((name) => [constant(`k${name}`, ranges(`\\p{Script=${name}}`)), "\n"]),
  constant("kAlphabetic", ranges("\\p{Alphabetic}")), "\n",
  constant("kCased", ranges("\\p{Cased}")), "\n",
  constant("kCaseIgnorable", ranges("\\p{Case_Ignorable}")), "\n",
  constant("kLowerCase", lowerCase()),
].join(""));

writeFileSync(join(folder, "unicode_normalization.inc"), [
  head("Decompositions and combining classes"),
  constant("kDecompositions", decompositions()), "\n",
  constant("kCombiningClasses", combiningClasses()), "\n",
  constant("kCompatibility", compatibility()),
].join(""));
