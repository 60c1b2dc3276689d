#!/usr/bin/env python3
"""Writes tests/data/fuzz/: the files that fuzzing starts from, one folder per fuzz_NAME.cpp.

Usage: make_fuzz_seeds.py    (from the project's root; writes the same bytes every time)
"""
import json
import pathlib
import struct

ROOT = pathlib.Path("tests/data/fuzz")

TOKENS = {"a": 0, "b": 1, "c": 2, "Ġ": 3, "©": 4, "ab": 5, "abc": 6, "Ġa": 7}
ADDED = {"id": 8, "content": "<end>", "single_word": False, "lstrip": True, "special": True}
GPT2_PATTERN = r"'s|'t|'re| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def tokenizer(**parts):
    model = {"type": "BPE", "vocab": TOKENS, "merges": ["a b", "ab c", "Ġ a"]}
    model.update(parts.pop("model", {}))
    return {"version": "1.0", "added_tokens": [ADDED], **parts, "model": model}


def tokenizers():
    yield "byte-level", tokenizer(
        normalizer={"type": "NFC"},
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "use_regex": True},
        post_processor={"type": "ByteLevel", "trim_offsets": False},
        decoder={"type": "ByteLevel"})
    yield "pattern", tokenizer(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": GPT2_PATTERN}, "behavior": "Isolated", "invert": False},
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
        post_processor={"type": "TemplateProcessing",
                        "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                        "pair": [], "special_tokens": {"<end>": {"id": "<end>", "ids": [8], "tokens": ["<end>"]}}},
        decoder={"type": "ByteLevel"},
        model={"ignore_merges": True, "merges": [["a", "b"], ["ab", "c"]]})
    fallback = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, **{f"<0x{i:02X}>": 4 + i for i in range(256)}}
    yield "byte-fallback", {
        "version": "1.0", "added_tokens": [{"id": 0, "content": "<unk>", "special": True}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                  "vocab": fallback, "merges": ["▁ a"]}}


def safetensors(header, data_bytes):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data_bytes)


def safetensors_seeds():
    """The first byte chooses the reader (fuzz_safetensors.cpp)."""
    yield "header", b"\x02" + safetensors(
        {"__metadata__": {"format": "pt"},
         "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
         "b.bias": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]}}, 32)
    yield "header-empty", b"\x03" + safetensors({}, 0)
    yield "header-scalar", b"\x02" + safetensors(
        {"s": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
         "none": {"dtype": "F16", "shape": [0, 7], "data_offsets": [8, 8]}}, 8)
    yield "index", b"\x00" + json.dumps(
        {"metadata": {"total_size": 32},
         "weight_map": {"a.weight": "model-00001-of-00002.safetensors",
                        "b.bias": "model-00002-of-00002.safetensors"}}).encode()
    pieces = [{"file": "model.safetensors", "entry": "a[0:2,0:4]", "first": [0, 0], "size": [2, 4]},
              {"file": "model.safetensors", "entry": "a[2:3,0:4]", "first": [2, 0], "size": [1, 4]}]
    yield "manifest", b"\x01" + json.dumps(
        {"format": "cadre checkpoint", "format_version": 1, "manifest_xxh3_64": "0" * 16, "step": 500,
         "files": [{"name": "model.safetensors", "bytes": 4096, "xxh3_64": "fedcba9876543210"}],
         "model": [{"name": "a", "dtype": "BF16", "shape": [3, 4], "pieces": pieces},
                   {"name": "b", "dtype": "F32", "shape": [], "pieces": [{"file": "model.safetensors"}]}],
         "optimizer": []}).encode()


def json_seeds():
    yield "values", rb'{"a": [1, -0, 2.5e-3, 1E+9, 18446744073709551615, true, false, null], "b": {"c": {}, "d": []}}'
    yield "text", '{"\\u00e9\\ud83e\\udd8a": "\\" \\\\ \\/ \\b\\f\\n\\r\\t é 🦊 字", "": ""}'.encode()
    yield "nested", b"[" * 40 + b'{"x": [[], {}]}' + b"]" * 40
    yield "tokens", b'{"tokens": [[1, 2, 3], [4, 5, 6]]}\n'


YAML = '''# a run
name: "mutant"
model: {model_type: llama, hidden_size: 24, rope_scaling: {rope_type: yarn, factor: 4.5}}
tokenizer: {train: {vocab_size: 777}}
data:
  sources:
    - {name: 'é 🦊', paths: ["*.txt", b], weight: 1e-1}
    - paths: c.jsonl.gz
      field: |
        two
        lines
  validation_fraction: 0.05
training: &anchor
  steps: 1_000
  seed: 18446744073709551615
  parameter_groups: [{parameters: "*.bias", weight_decay: 0.0}]
  gradient_checkpointing: true
sample: {prompt: "a\\n\\u007f\\"", top_p: .5}
'''


def main():
    seeds = {"safetensors": {f"{n}.bin": b for n, b in safetensors_seeds()},
             "json": {f"{n}.json": b for n, b in json_seeds()},
             "yaml": {"run.yaml": YAML.replace(" &anchor", "").encode(),
                      "anchors.yaml": YAML.encode(),
                      "least.yaml": b"model: {from: m}\ndata: {sources: [{paths: [a]}]}\ntraining: {steps: 1}\n"},
             "tokenizer_json": {f"{n}.json": json.dumps(t, ensure_ascii=False).encode() for n, t in tokenizers()}}
    for folder, files in seeds.items():
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (ROOT / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
