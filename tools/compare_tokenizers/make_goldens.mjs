// Writes tests/data/tokenizers: small tokenizers, trained here in the plainest way, and what
// @huggingface/tokenizers and Node make of some texts. Run: npm install && node make_goldens.mjs

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Tokenizer } from "@huggingface/tokenizers";
import { makeTexts } from "./texts.mjs";

const folder = join(dirname(fileURLToPath(import.meta.url)), "../../tests/data/tokenizers");

const CORPUS = (
  "The tokenizer takes text apart and the trainer puts the parts together again, the most frequent first. " +
  "There is nothing in the text that the tokenizer can't spell: there are tokens for all the bytes. " +
  "I'm sure they'll see that it's the same, don't you think? We've seen 1234 of 2024 tests in the tree.\n\n" +
  "    return tokens[i] + tokens[i + 1];\n    if (a == b) {\n        return the_tree;\n    }\n" +
  "Die Bäume stehen am Wasser; die Größe der Bäume ist größer als die des Wassers. " +
  "日本語の文と日本語の字。日本の木。 Это слово и это слово. HTTPServer MyTokenizer theTokenizer THE TREE "
).repeat(2);

// The characters that stand for bytes in a byte-level vocabulary.
const SPELLING = (() => {
  const own = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(own(byte) ? byte : next++));
})();
const spell = (text) => Array.from(new TextEncoder().encode(text), (byte) => SPELLING[byte]);

// Joins the most frequent pair again and again, counting everything anew each time.
function train(words, alphabet, count) {
  const vocab = [...alphabet];
  const merges = [];
  words = words.map((word) => [...word]);
  while (merges.length < count) {
    const counts = new Map();
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; ++i) {
        const pair = word[i] + " " + word[i + 1];
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    }
    const best = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    if (!best || best[1] < 2) break;
    const [left, right] = best[0].split(" ");
    merges.push(best[0]);
    if (!vocab.includes(left + right)) vocab.push(left + right);
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; ++i) {
        if (word[i] === left && word[i + 1] === right) word.splice(i, 2, left + right);
      }
    }
  }
  return { vocab, merges };
}

const GPT2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const QWEN2 = LLAMA3.replace("\\p{N}{1,3}", "\\p{N}");
const TAIL = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|";
const O200K = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" + TAIL +
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" + TAIL +
  "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const byteLevel = (use_regex) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex });
const split = (Regex, behavior, invert) => ({ type: "Split", pattern: { Regex }, behavior, invert });
const sequence = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const special = (id, content, more = {}) =>
  ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more });
const before = (token, id) => ({
  type: "TemplateProcessing",
  single: [{ SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
  pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
  special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
});

function file({ vocab, merges }, parts, model = {}) {
  const { added_tokens = [], normalizer = null, pre_tokenizer = null, post_processor = null, decoder } = parts;
  return {
    version: "1.0", truncation: null, padding: null, added_tokens, normalizer, pre_tokenizer, post_processor, decoder,
    model: {
      type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
      fuse_unk: false, byte_fallback: false, ignore_merges: false, ...model,
      vocab: Object.fromEntries(vocab.map((token, id) => [token, id])), merges,
    },
  };
}

const byteTrained = train(CORPUS.match(GPT2).map(spell), SPELLING, 160);
const size = byteTrained.vocab.length;
const mark = "▁";
const characters = [...new Set(mark + CORPUS.replaceAll(" ", mark))].filter((c) => c !== "語" && c !== "ß").sort();
const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
const KNOWN = CORPUS.replaceAll(/[語ß]/gu, " ");  // so that some characters have no token
const wordTrained = train(
  KNOWN.split(" ").map((word) => [mark, ...word]), ["<unk>", "<s>", "</s>", ...bytes, ...characters], 140);

const TOKENIZERS = {
  gpt2: file(byteTrained, {
    added_tokens: [special(size, "<|endoftext|>")],
    pre_tokenizer: byteLevel(true), post_processor: byteLevel(true), decoder: byteLevel(true),
  }),
  llama3: file({ vocab: byteTrained.vocab, merges: byteTrained.merges.slice(0, 120) }, {
    added_tokens: [special(size, "<|begin_of_text|>"), special(size + 1, "<|eot_id|>")],
    pre_tokenizer: sequence(split(LLAMA3, "Isolated", false), byteLevel(false)),
    post_processor: { type: "Sequence", processors: [byteLevel(true), before("<|begin_of_text|>", size)] },
    decoder: byteLevel(true),
  }, { ignore_merges: true }),
  qwen3: file(byteTrained, {
    added_tokens: [
      special(size, "<|endoftext|>"), special(size + 1, "<think>", { special: false, lstrip: true }),
      special(size + 2, "</think>", { special: false, rstrip: true }),
      special(size + 3, "Größe", { special: false, normalized: true }),
    ],
    normalizer: { type: "NFC" },
    pre_tokenizer: sequence(split(QWEN2, "Isolated", false), byteLevel(false)),
    post_processor: byteLevel(false), decoder: byteLevel(false),
  }),
  gpt4o: file(byteTrained, {
    added_tokens: [special(size, "<|endoftext|>")],
    pre_tokenizer: sequence(split(O200K, "Removed", true), byteLevel(false)), decoder: byteLevel(true),
  }),
  deepseek: file(byteTrained, {
    added_tokens: [special(size, "<|endoftext|>")],
    normalizer: { type: "NFKC" },
    pre_tokenizer: sequence(
      split("\\p{N}{1,3}", "Isolated", false), split("[一-龥\u3040-ゟ゠-ヿ]+", "Isolated", false),
      split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+", "Isolated", false),
      byteLevel(false)),
    decoder: byteLevel(true),
  }),
  llama2: file(wordTrained, {
    added_tokens: [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
    normalizer: { type: "Sequence", normalizers: [
      { type: "Prepend", prepend: mark }, { type: "Replace", pattern: { String: " " }, content: mark }] },
    post_processor: before("<s>", 1),
    decoder: { type: "Sequence", decoders: [
      { type: "Replace", pattern: { String: mark }, content: " " }, { type: "ByteFallback" }, { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 }] },
  }, { unk_token: "<unk>", fuse_unk: true, byte_fallback: true }),
  // No byte tokens: what is unknown stays unknown.
  unknown: file(train(KNOWN.split(" ").map((word) => [...word]), ["<unk>", ...characters], 30), {
    added_tokens: [special(0, "<unk>")],
    normalizer: { type: "Lowercase" }, decoder: { type: "Fuse" },
  }, { unk_token: "<unk>", fuse_unk: true }),
};

const TEXTS = [
  "", " ", "Hello, world!", "The tokenizer takes text apart", "don't DON'T we'll WE'LL I'M y'all'd've ''s 'S",
  "  two spaces   three\n\n\n line breaks \r\n\r\n and\ttabs\t\t end  ", "1 12 123 1234 12345 ½ ²³ ٣٤٥ １２３",
  "日本語の文と字。 한국어 ไทย", "e\u0301a\u0323\u0307 \u1100\u1161\u11a8 \u212b \ufb01 ①", "שָׁלוֹם مرحبا بالعالم",
  "👨‍👩‍👧‍👦🏳️‍🌈 1️⃣ ☃", "<|endoftext|>the<|endoftext|> <|begin_of_text|><|eot_id|></s><s>< s><unk>", "a <think>  b</think>  c Größe Gro\u0308\u00dfe",
  "x://y//\n///z !!!\n\n ???/\r\n", "HTTPServer camelCaseWord ÀÉÎ ǅungla ʰello ªº", "\ufeffBOM \u0085 \u00a0\u2003\u3000 \u200b\u180e",
  "if (a == b) {\n        return the_tree;\n    }", "▁▁ ▁the▁ the▁", "ΣΊΣΥΦΟΣ İI ẞ ﬀ", "\u{1e4d0}\u{11f04} \u{16d63}\u{16d67}\u{16d67} \u{105c0}\u{1fadc} \u{323b0} \u{10ffff}\u0378",
  "a".repeat(70), "the".repeat(40), " ".repeat(65) + "x", "\u0301\u0301x \u093f\u0915", "K ſ 'ſ ß",
  ...makeTexts(24, 7).map((text) => Array.from(text).slice(0, 60).join("")),
];

// FNV-1a of the UTF-8 of what `make` says of every code point that is no surrogate.
function digest(make) {
  let hash = 0xcbf29ce484222325n;
  const encoder = new TextEncoder();
  for (let point = 0; point < 0x110000; ++point) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    for (const byte of encoder.encode(make(String.fromCodePoint(point)))) {
      hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
    }
  }
  return hash.toString();
}
const CLASSES = ["\\p{L}", "\\p{N}", "\\p{M}", "\\p{P}", "\\p{S}", "\\p{Z}", "\\p{C}", "\\p{Lu}", "\\p{Ll}", "\\p{Lt}",
  "\\p{White_Space}", "\\p{Script=Han}", "\\p{Alphabetic}"].map((name) => new RegExp(name, "u"));

mkdirSync(folder, { recursive: true });
const goldens = { texts: TEXTS, ids: {}, decoded: {} };
for (const [name, json] of Object.entries(TOKENIZERS)) {
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(json) + "\n");
  const tokenizer = new Tokenizer(json, {});
  goldens.ids[name] = TEXTS.map((text) => tokenizer.encode(text).ids);
  goldens.decoded[name] = TEXTS.slice(0, 20).map((text) => {
    const ids = tokenizer.encode(text).ids;
    const options = { skip_special_tokens: true, clean_up_tokenization_spaces: false };
    return ids.length === 0 ? "" : tokenizer.decode(ids, options);
  });
}
const FORMS = ["NFC", "NFD", "NFKC", "NFKD"];
// Marks of three classes around each character: order and joining both matter.
goldens.normalized = Object.fromEntries(
  FORMS.map((form) => [form, digest((c) => ("e\u0301" + c + "\u0323\u0327\u1161" + c).normalize(form))]));
goldens.lower_case = digest((c) => ("A" + c + "\u03a3" + c + " ").toLowerCase());
goldens.classes = digest((c) => CLASSES.map((test) => (test.test(c) ? "1" : "0")).join(""));
writeFileSync(join(folder, "goldens.json"), JSON.stringify(goldens) + "\n");
