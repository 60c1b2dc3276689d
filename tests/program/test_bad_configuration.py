"""A configuration that is wrong: file, place, what was found, what is allowed; nothing changes."""

import os
import unittest

import support


class BadConfigurationTest(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.put_tokens()

    def yaml(self, *, model="", training="", data="", extra=""):
        """Written by hand, so that places are known."""
        text = f"""model:
  model_type: llama
  hidden_size: 16
  intermediate_size: 24
  num_hidden_layers: 1
  num_attention_heads: 2
  vocab_size: 64
{model}data:
  sources:
    - paths: [tokens.json]
  sequence_length: 16
{data}training:
  steps: 2
{training}{extra}"""
        self.put("run.yaml", text)

    def refused_everywhere(self, says):
        for command in (["train"], ["plan"], ["config", "check"], ["data", "prepare"]):
            self.refused(*command, "run.yaml", says=says)

    def test_a_misspelt_key_is_named_with_its_place_and_the_near_one(self):
        self.yaml(training="  lerning_rate: 1e-3\n")
        self.refused_everywhere(["run.yaml:14:3", "lerning_rate", 'did you mean "', "learning_rate"])

    def test_an_unknown_key_is_named_with_its_place(self):
        self.yaml(extra="zebra: 1\n")
        self.refused_everywhere(["run.yaml:14:1", "zebra"])

    def test_an_unknown_section_key_of_set_is_named(self):
        self.yaml()
        self.refused("train", "run.yaml", "--set", "training.stepz=3",
                     says=["--set training.stepz", 'did you mean "steps"'])

    def test_a_wrong_type_is_named_with_what_is_allowed(self):
        self.yaml(training="  micro_batch_size: many\n")
        self.refused_everywhere(["run.yaml:14:21", "micro_batch_size", "many", "whole number"])

    def test_a_list_in_the_place_of_a_number_is_named(self):
        self.yaml(training="  learning_rate: [1, 2]\n")
        self.refused_everywhere(["run.yaml:14", "learning_rate", "list", "number"])

    def test_a_value_out_of_bounds_is_named(self):
        self.yaml(data="  validation_fraction: 1.5\n")
        self.refused_everywhere(["run.yaml:12", "validation_fraction", "1.5", "below 1"])

    def test_a_run_that_would_train_nothing_is_refused(self):
        self.yaml()
        self.refused("train", "run.yaml", "--set",
                     'training.parameter_groups=[{parameters: ["*"], frozen: true}]',
                     says=["training.parameter_groups", "frozen"])

    def test_no_number_however_large_ends_in_an_abort(self):
        integers = ["threads", "data.sequence_length", "training.micro_batch_size",
                    "training.gradient_accumulation_steps", "training.steps", "training.warmup_steps",
                    "training.seed", "checkpoint.every", "checkpoint.keep", "sample.tokens",
                    "sample.top_k", "tokenizer.train.vocab_size", "parallel.tensor_parallel_size",
                    "model.vocab_size", "model.hidden_size", "model.intermediate_size",
                    "model.num_hidden_layers", "model.num_attention_heads",
                    "model.num_key_value_heads", "model.head_dim",
                    "model.max_position_embeddings", "model.sliding_window"]
        self.yaml()
        for key in integers:
            for value in ("-1", "0", "2147483647", "2147483648", "9223372036854775807", "1e30",
                          ".inf", ".nan", ""):
                result = self.run_program("plan", "run.yaml", "--set", f"{key}={value}")
                self.assertIn(result.code, (0, 2), f"{key}={value}\n{result.err}")
                self.assertEqual(result.code == 2, bool(result.err.startswith("cadre: ")),
                                 f"{key}={value}\n{result.err}")

    def test_a_choice_that_is_none_lists_the_choices(self):
        self.yaml(training="  precision: fp64\n")
        self.refused_everywhere(["run.yaml:14", "precision", "fp64", "fp32", "bf16"])

    def test_heads_that_do_not_divide_the_width_are_refused(self):
        self.yaml(model="  num_key_value_heads: 3\n")
        for command in ("train", "plan"):
            self.refused(command, "run.yaml", says=["run.yaml", "num_key_value_heads", "3", "2"])

    def test_steps_and_epochs_together_are_refused(self):
        self.yaml(training="  epochs: 1\n")
        self.refused_everywhere(["run.yaml", "steps", "epochs"])

    def test_two_kinds_of_warm_up_are_refused(self):
        self.yaml(training="  warmup_steps: 1\n  warmup_ratio: 0.1\n")
        self.refused_everywhere(["run.yaml", "warmup_steps", "warmup_ratio"])

    def test_a_key_that_stands_twice_is_refused(self):
        self.yaml(training="  seed: 1\n  seed: 2\n")
        self.refused_everywhere(["run.yaml:15:3", "seed"])

    def test_yaml_that_is_none_is_refused_with_its_place(self):
        self.put("run.yaml", "model: {hidden_size: 16\ntraining:\n")
        self.refused_everywhere(["run.yaml:"])

    def test_invalid_utf8_is_refused_with_its_place(self):
        self.put("run.yaml", b"name: ab\xffcd\n")
        self.refused_everywhere(["run.yaml:1", "UTF-8"])

    def test_a_configuration_that_is_missing_is_named(self):
        for command in (["train"], ["plan"], ["config", "check"], ["data", "prepare"]):
            self.refused(*command, "none.yaml", says=["none.yaml", "does not exist"])

    def test_an_argument_that_is_not_utf8_is_refused_and_shown(self):
        self.yaml()
        bad = b"bad\xff"
        for arguments in (["train", bad + b"/run.yaml"], ["train", "run.yaml", "--output", bad],
                          ["train", "run.yaml", "--set", b"data.sources[0].paths=" + bad],
                          ["train", "run.yaml", "--set", b"name=" + bad], ["eval", bad],
                          ["tokenizer", "train", "tokens.json", "--special", bad]):
            self.refused(*arguments, says=[f"argument {len(arguments)}", "bad\\xff", "UTF-8"])

    def test_a_working_directory_that_is_not_utf8_is_refused(self):
        self.yaml()
        folder = os.path.join(os.fsencode(self.folder), b"bad\xff")
        os.mkdir(folder)
        result = self.run_program("train", "../run.yaml", cwd=folder)
        self.assertEqual((result.code, os.listdir(folder)), (2, []), result.err)
        self.assertIn("not valid UTF-8", result.err)

    def test_a_text_with_a_zero_byte_is_refused(self):
        self.yaml(extra='output: "q\\0b"\nname: "a\\0b"\n')
        self.refused_everywhere(["run.yaml:14:9: output", "run.yaml:15:7: name", "zero byte"])

    def test_a_list_of_no_paths_is_refused(self):
        self.yaml(data="  validation: [{paths: []}]\n")
        self.refused_everywhere(["run.yaml:12:24", "data.validation[0].paths", "empty list"])
        self.yaml()
        for command in (["train"], ["data", "prepare"]):
            self.refused(*command, "run.yaml", "--set", "data.sources=[{paths: []}]",
                         says=["data.sources[0].paths", "empty list", "at least one path"])

    def test_numbers_that_no_float_holds_are_refused(self):
        self.yaml()
        for setting, says in (("dropout=0.99999999", "as a float is 1"),
                              ("beta2=0.999999999999", "as a float is 1"),
                              ("epsilon=5e-324", "as a float is 0"),
                              ("learning_rate=1e308", "no float holds")):
            self.refused("train", "run.yaml", "--set", "training." + setting, says=[setting[:5], says])

    def test_a_folder_in_the_place_of_a_configuration_is_named(self):
        self.put("folder/x", "")
        self.refused("train", "folder", says=["folder"])

    def test_an_architecture_that_is_not_supported_lists_those_that_are(self):
        self.put_config(model={"model_type": "mamba", "hidden_size": 16})
        for command in ("train", "plan"):
            self.refused(command, "run.yaml",
                         says=["mamba", "llama", "mistral", "qwen2", "qwen3", "gpt2"])

    def test_a_deepspeed_file_that_is_missing_is_named(self):
        self.yaml()
        self.refused("train", "run.yaml", "--deepspeed", "ds.json", says=["ds.json"])

    def test_a_deepspeed_file_that_contradicts_is_refused(self):
        self.yaml(training="  precision: fp32\n")
        self.put("ds.json", {"bf16": {"enabled": True}, "fp16": {"enabled": True}})
        self.refused("train", "run.yaml", "--deepspeed", "ds.json", says=["ds.json", "fp16"])

    def test_a_model_without_a_vocabulary_is_refused(self):
        self.put_config(model={"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2})
        self.refused("train", "run.yaml", says=["vocab_size", "tokenizer"])


if __name__ == "__main__":
    unittest.main()
