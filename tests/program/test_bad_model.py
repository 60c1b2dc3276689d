"""Model folders that are wrong: file, tensor, what was found; nothing is written."""

import json
import struct
import unittest

import support
from support import MODEL_CONFIG, model_tensors, safetensors

WEIGHTS = "model/model.safetensors"


class BadModelTest(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.put_tokens()
        self.put_config(model={"from": "model"})

    def refused_everywhere(self, says):
        self.refused("train", "run.yaml", says=says)
        self.refused("eval", "model", "--data", "tokens.json", "--seq", "16", says=says)
        self.refused("probe", "model", "--tokens", "tokens.json", says=says)

    def header_refused(self, header, says, data_bytes=64):
        text = header if isinstance(header, bytes) else header.encode()
        self.put_model(weights=struct.pack("<Q", len(text)) + text + b"\0" * data_bytes)
        self.refused_everywhere(["model.safetensors", *says])

    def test_a_model_that_is_good_is_taken(self):
        self.put_model()
        self.run_program("train", "run.yaml", check=0)

    # The file.

    def test_a_file_that_was_cut_off_is_refused(self):
        self.put_model(weights=safetensors(model_tensors())[:-100])
        self.refused_everywhere(["model.safetensors", '"lm_head.weight"', "17088", "16988"])

    def test_a_file_that_goes_on_behind_its_tensors_is_refused(self):
        self.put_model(weights=safetensors(model_tensors()) + b"1234")
        self.refused_everywhere(["model.safetensors"])

    def test_a_header_longer_than_the_file_is_refused(self):
        self.put_model(weights=safetensors(model_tensors(), header_length=1 << 40))
        self.refused_everywhere(["model.safetensors", str(1 << 40)])

    def test_a_file_shorter_than_a_headers_length_is_refused(self):
        self.put_model(weights=b"1234")
        self.refused_everywhere(["model.safetensors", "4"])

    def test_an_empty_file_is_refused(self):
        self.put_model(weights=b"")
        self.refused_everywhere(["model.safetensors"])

    def test_a_header_that_is_no_json_is_refused(self):
        self.header_refused('{"a": ', [])

    def test_invalid_utf8_in_a_header_is_refused(self):
        self.header_refused(b'{"\xff": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
                            ["UTF-8"], data_bytes=4)

    def test_offsets_beyond_the_file_are_refused(self):
        self.header_refused('{"a": {"dtype": "F32", "shape": [32], "data_offsets": [0, 128]}}',
                            ["a", "128"])

    def test_offsets_that_run_backwards_are_refused(self):
        self.header_refused('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}}',
                            ["a", "[8, 4]"])

    def test_offsets_that_do_not_fit_the_shape_are_refused(self):
        self.header_refused('{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 64]}}',
                            ["a", "64", "12"])

    def test_tensors_that_overlap_are_refused(self):
        self.header_refused('{"a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]},'
                            '"b": {"dtype": "F32", "shape": [12], "data_offsets": [16, 64]}}',
                            ["b", "16"])

    def test_names_that_stand_twice_are_refused(self):
        self.header_refused('{"a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]},'
                            '"a": {"dtype": "F32", "shape": [8], "data_offsets": [32, 64]}}',
                            ['"a"', "twice"])

    def test_a_dtype_that_is_none_is_refused(self):
        self.header_refused('{"a": {"dtype": "Q4", "shape": [16], "data_offsets": [0, 64]}}',
                            ["a", "Q4"])

    # The tensors.

    def test_a_tensor_that_is_missing_is_named(self):
        tensors = model_tensors()
        del tensors["model.layers.0.mlp.up_proj.weight"]
        self.put_model(weights=safetensors(tensors))
        self.refused_everywhere(["model.layers.0.mlp.up_proj.weight"])

    def test_a_tensor_that_is_left_over_is_named(self):
        tensors = model_tensors()
        tensors["model.layers.1.mlp.up_proj.weight"] = ((4, 4), None)
        self.put_model(weights=safetensors(tensors))
        self.refused_everywhere(["model.layers.1.mlp.up_proj.weight"])

    def test_a_tensor_of_another_shape_is_named_with_both(self):
        tensors = model_tensors()
        tensors["model.layers.0.mlp.up_proj.weight"] = ((support.WIDTH, support.MLP), None)
        self.put_model(weights=safetensors(tensors))
        self.refused_everywhere(["model.layers.0.mlp.up_proj.weight", "16", "24"])

    def test_a_configuration_that_claims_more_than_the_files_hold_is_refused_by_the_files(self):
        # 3 GB and more: memory is not asked for before the headers have been compared.
        self.put_model(config={**MODEL_CONFIG, "intermediate_size": 16777216})
        self.refused_everywhere(["up_proj.weight", "16777216", "24"])
        self.put_model(config={**MODEL_CONFIG, "hidden_size": 16777216, "head_dim": 8388608})
        self.refused_everywhere(["16777216", "allowed: at most"])

    def test_no_weights_at_all_are_refused(self):
        self.put("model/config.json", MODEL_CONFIG)
        self.refused_everywhere(["model", "safetensors"])

    def test_a_shard_that_is_missing_is_named(self):
        self.put("model/config.json", MODEL_CONFIG)
        weight_map = {name: "model-00001-of-00001.safetensors" for name in model_tensors()}
        self.put("model/model.safetensors.index.json", {"weight_map": weight_map})
        self.refused_everywhere(["model-00001-of-00001.safetensors"])

    # config.json.

    def test_a_model_that_is_missing_is_named(self):
        self.refused("train", "run.yaml", says=["model", "config.json"])
        self.refused("eval", "nowhere", "--data", "tokens.json", says=["nowhere"])
        self.refused("probe", "nowhere", "--tokens", "tokens.json", says=["nowhere"])
        self.refused("generate", "nowhere", "--prompt", "x", says=["nowhere"])

    def test_invalid_utf8_in_config_json_is_refused_with_its_place(self):
        self.put_model()
        good = json.dumps(MODEL_CONFIG, indent=1).encode()
        self.put("model/config.json", good.replace(b'"llama"', b'"lla\xffma"'))
        self.refused_everywhere(["config.json", "UTF-8"])

    def test_config_json_that_is_no_json_is_refused_with_its_place(self):
        self.put_model(config=MODEL_CONFIG)
        self.put("model/config.json", '{\n "model_type": "llama",\n "hidden_size": \n}')
        self.refused_everywhere(["config.json:4"])

    def test_an_architecture_that_is_not_supported_lists_those_that_are(self):
        self.put_model(config={**MODEL_CONFIG, "model_type": "falcon",
                               "architectures": ["FalconForCausalLM"]})
        self.refused_everywhere(["config.json", "Falcon", "llama", "qwen3"])

    def test_a_value_that_would_change_the_result_is_refused_by_name(self):
        self.put_model(config={**MODEL_CONFIG, "hidden_act": "relu"})
        self.refused_everywhere(["config.json", "hidden_act", "relu", "silu"])

    def test_a_wrong_type_in_config_json_is_named(self):
        self.put_model(config={**MODEL_CONFIG, "hidden_size": "wide"})
        self.refused_everywhere(["config.json", "hidden_size", "wide"])


if __name__ == "__main__":
    unittest.main()
