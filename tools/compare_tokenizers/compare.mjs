// Compares cadre's token ids with those of @huggingface/tokenizers. See README.md.
//
//   node compare.mjs PATH/TO/cadre [--texts N] [--seed S] [NAME...]

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Tokenizer } from "@huggingface/tokenizers";
import { makeTexts } from "./texts.mjs";

const LARGE = { maxBuffer: 2 ** 31 - 1 };
const here = dirname(fileURLToPath(import.meta.url));
const vendors = join(here, "node_modules/@lenml");

const arguments_ = process.argv.slice(2);
const option = (name, absent) => {
  const at = arguments_.indexOf(name);
  return at < 0 ? absent : Number(arguments_.splice(at, 2)[1]);
};
const count = option("--texts", 20000);
const seed = option("--seed", 1);
const [cadre, ...wanted] = arguments_;
if (!cadre) throw new Error("usage: node compare.mjs PATH/TO/cadre [--texts N] [--seed S] [NAME...]");

const names = wanted.length > 0 ? wanted : readdirSync(vendors)
  .filter((name) => existsSync(join(vendors, name, "models/tokenizer.json")))
  .map((name) => name.replace("tokenizer-", ""));
const texts = makeTexts(count, seed);
const scratch = mkdtempSync(join(tmpdir(), "compare-tokenizers-"));
const lines = join(scratch, "texts.jsonl");
writeFileSync(lines, texts.map((text) => JSON.stringify(text) + "\n").join(""));

let failed = false;
for (const name of names) {
  const folder = join(vendors, `tokenizer-${name}`, "models");
  const read = (file) => JSON.parse(readFileSync(join(folder, file), "utf8"));
  const theirs = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
  const ran = spawnSync(
    cadre, ["tokenizer", "encode", "--tokenizer", folder, "--file", lines, "--json-lines"], LARGE);
  if (ran.status !== 0) {
    console.log(`${name}: ${ran.stderr}`);
    failed = true;
    continue;
  }
  const printed = ran.stdout.toString().trimEnd().split("\n");
  let different = 0;
  let ids = 0;
  for (let i = 0; i < texts.length; ++i) {
    const expected = theirs.encode(texts[i]).ids;
    ids += expected.length;
    if (JSON.stringify(expected) === printed[i]) continue;
    if (++different <= 3) {
      const ours = JSON.parse(printed[i] ?? "null");
      const at = expected.findIndex((id, place) => id !== ours?.[place]);
      console.log(`${name}: text ${i} ${JSON.stringify(texts[i].slice(0, 200))}`);
      console.log(`  at id ${at}: theirs ${expected.slice(at, at + 8)} ours ${ours?.slice(at, at + 8)}`);
      console.log(`  theirs ${JSON.stringify(expected.slice(at, at + 4).map((id) => theirs.id_to_token(id)))}`);
    }
  }
  failed ||= different > 0;
  console.log(`${name}: ${texts.length} texts, ${ids} ids, ${different} texts differ`);
}
rmSync(scratch, { recursive: true });
process.exitCode = failed ? 1 : 0;
