"""Corpora and tokenizers that are wrong: file, line, what was found; nothing is left behind."""

import gzip
import struct
import unittest

import support


class BadDataTest(support.ProgramTest):
    def text_run(self, source, **data):
        """Text, and a tokenizer that is trained on it."""
        config = {key: value for key, value in support.MODEL_CONFIG.items()
                  if key not in ("architectures", "vocab_size")}
        self.put_config(model=config, tokenizer={"train": {"vocab_size": 300}},
                        data={"sources": [source], **data})

    def refused_everywhere(self, says):
        self.refused("train", "run.yaml", says=says)
        self.refused("data", "prepare", "run.yaml", says=says)

    def test_a_file_that_is_missing_is_named(self):
        self.text_run({"paths": ["none.txt"]})
        self.refused_everywhere(["none.txt", "No such file"])

    def test_a_glob_that_matches_nothing_is_named(self):
        self.text_run({"paths": ["none/*.txt"]})
        self.refused_everywhere(["none/*.txt", "no file matches"])

    def test_a_folder_without_files_is_named(self):
        self.put("corpus/.hidden", "x")
        self.text_run({"paths": ["corpus"]})
        self.refused_everywhere(["corpus", "no file"])

    def test_an_empty_corpus_is_refused(self):
        self.put("empty.txt", "")
        self.text_run({"paths": ["empty.txt"]})
        self.refused_everywhere(["empty"])

    def test_an_empty_list_of_tokens_is_refused(self):
        self.put("tokens.json", {"tokens": []})
        self.put_config()
        self.refused_everywhere(["tokens.json", "empty"])

    def test_fewer_tokens_than_one_sequence_are_refused(self):
        self.put("short.txt", "one two\n")
        self.text_run({"paths": ["short.txt"]})
        self.refused_everywhere(["short.txt", "tokens", "sequence", "17", "sequence_length"])

    def test_a_bad_second_source_leaves_nothing_of_the_first(self):
        self.put("good.txt", support.text_of_lines(300))
        self.put("bad.jsonl", '{"text": "fine"}\n{"text": "broken\n')
        self.put_config(tokenizer={"train": {"vocab_size": 300}}, model={
            key: value for key, value in support.MODEL_CONFIG.items()
            if key not in ("architectures", "vocab_size")
        }, data={"sources": [{"paths": ["good.txt"]}, {"paths": ["bad.jsonl"]}]})
        self.refused_everywhere(["bad.jsonl:2"])

    def test_json_that_is_broken_is_named_with_its_line(self):
        self.put("a.jsonl", '{"text": "fine"}\n\n{"text": }\n')
        self.text_run({"paths": ["a.jsonl"]})
        self.refused_everywhere(["a.jsonl:3"])

    def test_invalid_utf8_in_jsonl_is_named_with_its_line(self):
        self.put("a.jsonl", b'{"text": "fine"}\n{"text": "a\xff\xfe"}\n')
        self.text_run({"paths": ["a.jsonl"]})
        self.refused_everywhere(["a.jsonl:2", "UTF-8"])

    def test_a_field_that_is_not_there_is_named_with_those_that_are(self):
        self.put("a.jsonl", '{"body": "fine"}\n')
        self.text_run({"paths": ["a.jsonl"]})
        self.refused_everywhere(["a.jsonl:1", '"text"', '"body"'])

    def test_a_file_that_is_no_text_is_refused(self):
        self.put("a.data", bytes(range(256)) * 20)
        self.text_run({"paths": ["a.data"]})
        self.refused_everywhere(["a.data", "zero bytes"])

    def test_a_compressed_file_that_was_cut_off_is_refused(self):
        whole = gzip.compress(support.text_of_lines(200).encode())
        self.put("a.txt.gz", whole[:len(whole) // 2])
        self.text_run({"paths": ["a.txt.gz"]})
        self.refused_everywhere(["a.txt.gz"])

    def test_a_token_beyond_the_vocabulary_is_named_with_its_place(self):
        self.put("tokens.json", {"tokens": [[1] * 30, [2, 3, support.VOCABULARY, 4]]})
        self.put_config()
        self.refused_everywhere(["tokens.json", "tokens[1][2]", "64", "vocab_size"])

    def test_a_token_that_is_no_number_is_named_with_its_place(self):
        self.put("tokens.json", '{"tokens": [[1, 2, "three"]]}')
        self.put_config()
        self.refused_everywhere(["tokens.json"])

    def test_raw_tokens_of_an_odd_size_are_refused(self):
        self.put("a.u16", struct.pack("<40H", *range(40)) + b"x")
        self.put_config(data={"sources": [{"paths": ["a.u16"]}]})
        self.refused_everywhere(["a.u16", "81"])

    def test_raw_tokens_that_do_not_tell_their_width_are_refused(self):
        self.put("a.bin", struct.pack("<40H", *range(40)))
        self.put_config(data={"sources": [{"paths": ["a.bin"]}]})
        self.refused_everywhere(["a.bin", "tokens_u16", "tokens_u32"])

    def test_text_without_a_tokenizer_is_refused(self):
        self.put("a.txt", support.text_of_lines(50))
        self.put_config(data={"sources": [{"paths": ["a.txt"]}]})
        self.refused_everywhere(["a.txt", "no tokenizer", "tokenizer.from"])

    def test_a_tokenizer_beyond_the_models_vocabulary_is_refused(self):
        self.put("a.txt", support.text_of_lines(300))
        self.run_program("tokenizer", "train", "a.txt", "--vocab-size", "300", "--output", "tok",
                         check=0)
        self.put_config(tokenizer={"from": "tok"}, data={"sources": [{"paths": ["a.txt"]}]})
        self.refused_everywhere(["tokenizer", "299", "vocab_size", "64"])

    def test_a_trained_tokenizer_beyond_the_models_vocabulary_is_refused(self):
        self.put("a.txt", support.text_of_lines(300))
        self.put_config(tokenizer={"train": {"vocab_size": 300}},
                        data={"sources": [{"paths": ["a.txt"]}]})
        self.refused_everywhere(["run.yaml:1:", "tokenizer.train.vocab_size", "300", "64"])

    def test_a_tokenizer_that_is_missing_is_named(self):
        self.put_tokens()
        self.put_config(tokenizer={"from": "none/tokenizer.json"})
        self.refused_everywhere(["none/tokenizer.json"])

    def test_invalid_utf8_in_a_tokenizer_is_refused_with_its_place(self):
        self.put_tokens()
        self.put("tokenizer.json", b'{"version": "1.0", "model": {"type": "B\xc3\x28PE"}}')
        self.put_config(tokenizer={"from": "tokenizer.json"})
        self.refused_everywhere(["tokenizer.json", "UTF-8"])

    def test_a_tokenizer_of_another_kind_is_refused_by_name(self):
        self.put_tokens()
        self.put("tokenizer.json", {"model": {"type": "Unigram", "vocab": []}})
        self.put_config(tokenizer={"from": "tokenizer.json"})
        self.refused_everywhere(["tokenizer.json", "Unigram", "BPE"])


if __name__ == "__main__":
    unittest.main()
