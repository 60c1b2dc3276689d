"""What each command prints for a tiny model, and that each refuses wrong arguments with 2."""

import math
import os
import tempfile
import unittest

import support


class CommandsTest(support.ProgramTest):
    def train_on_text(self):
        self.put("text.txt", support.text_of_lines(300))
        model = {key: value for key, value in support.MODEL_CONFIG.items()
                 if key not in ("architectures", "vocab_size")}
        self.put_config(model=model, tokenizer={"train": {"vocab_size": 300}},
                        data={"sources": [{"paths": ["text.txt"]}]}, sample={"tokens": 0})
        self.run_program("train", "run.yaml", check=0)

    def test_generate_continues_the_prompt(self):
        self.train_on_text()
        command = ["generate", "runs/run", "--prompt", "the cat"]
        for flag, value in (("--temperature", "-1"), ("--top-p", "1.5"), ("--top-k", "-2"),
                            ("--max-tokens", "0"), ("--max-tokens", "1000"),
                            ("--precision", "fp64")):
            self.refused(*command, flag, value, says=[flag, value])
        command += ["--max-tokens", "12"]
        greedy = self.run_program(*command, "--temperature", "0", check=0).out
        self.assertTrue(greedy.startswith("the cat"))
        self.assertEqual(self.run_program(*command, "--temperature", "0", check=0).out, greedy)
        random = [*command, "--temperature", "1.5", "--top-k", "50", "--top-p", "0.95", "--seed"]
        self.assertEqual(self.run_program(*random, "1", check=0).out,
                         self.run_program(*random, "1", check=0).out)
        self.assertNotEqual(self.run_program(*random, "1", check=0).out,
                            self.run_program(*random, "2", check=0).out)

    def test_eval_gives_loss_perplexity_tokens_and_bits_per_byte(self):
        self.train_on_text()
        self.put("other.txt", support.text_of_lines(20))
        result = self.run_program("eval", "runs/run", "--data", "other.txt", "--seq", "16",
                                  "--json", check=0).json()
        self.assertEqual(sorted(result), ["bits_per_byte", "loss", "perplexity", "tokens"])
        self.assertAlmostEqual(result["perplexity"], math.exp(result["loss"]), 6)
        size = os.path.getsize(self.path("other.txt"))
        self.assertAlmostEqual(result["bits_per_byte"],
                               result["loss"] * result["tokens"] / math.log(2) / size, 6)
        plain = self.run_program("eval", "runs/run", "--data", "other.txt", check=0).out
        self.assertRegex(plain, r"^loss \d.* perplexity .* tokens .* bits per byte ")
        self.refused("eval", "runs/run", "--data", "none.txt", says=["none.txt"])
        # As long as all data is long enough: the rest would be padding.
        longest = ["eval", "runs/run", "--data", "other.txt", "--json", "--seq"]
        self.assertEqual(self.run_program(*longest, "2147483647", check=0).out,
                         self.run_program(*longest, "100000", check=0).out)

    @unittest.skipIf(os.getuid() != 0, "needs the right to become another user")
    def test_eval_works_where_nothing_may_be_written(self):
        self.put_model()
        self.put_tokens()
        command = ["eval", "model", "--data", "tokens.json", "--seq", "16", "--json"]
        self.run_as_nobody("--version", check=0)
        before = support.state_of(self.folder)
        result = self.run_as_nobody(*command, check=0)
        self.assertEqual(support.state_of(self.folder), before)
        self.assertFalse([name for name in os.listdir(tempfile.gettempdir())
                          if name.startswith("cadre-eval-")])
        self.assertEqual(result.out, self.run_program(*command, check=0).out)

    @unittest.skipIf(os.getuid() != 0, "needs the right to become another user")
    def test_a_folder_that_may_not_be_looked_into_is_an_error_and_no_abort(self):
        self.put_model("closed/model")
        os.chmod(self.path("closed"), 0o700)
        self.put_tokens()
        for command in (["eval", "closed/model", "--data", "tokens.json"],
                        ["generate", "closed/model", "--prompt", "x"],
                        ["probe", "closed/model", "--tokens", "tokens.json"]):
            result = self.run_as_nobody(*command, check=2)
            self.assertIn("closed/model: Permission denied", result.err)
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        self.put_config(model={"from": "closed/model"}, output="open/run",
                        data={"cache_directory": "open/cache"})
        result = self.run_as_nobody("train", "run.yaml", check=2)
        self.assertIn("closed/model", result.err)

    def test_probe_gives_loss_logits_and_gradients(self):
        self.put_model()
        self.put_tokens(sequences=3, length=9)
        result = self.run_program("probe", "model", "--tokens", "tokens.json", "--positions",
                                  "0,-1", "--gradients", "--json", check=0).json()
        self.assertEqual(sorted(result), ["gradients", "logits", "loss", "target_tokens"])
        self.assertEqual(result["target_tokens"], 3 * 8)
        self.assertEqual([entry["sequence"] for entry in result["logits"]], [0, 0])
        self.assertIn(result["logits"][1]["position"], (-1, 7))
        self.assertEqual(len(result["logits"][0]["values"]), support.VOCABULARY)
        self.assertEqual(sorted(result["gradients"]), sorted(support.model_tensors()))
        for name, gradient in result["gradients"].items():
            self.assertEqual(sorted(gradient), ["first", "norm"])
            self.assertEqual(len(gradient["first"]), 8, name)
            self.assertGreater(gradient["norm"], 0)
        without = self.run_program("probe", "model", "--tokens", "tokens.json", "--positions",
                                   "0,-1", "--json", check=0).json()
        self.assertAlmostEqual(without["loss"], result["loss"], 6)
        del without["loss"], result["loss"], result["gradients"]
        self.assertEqual(without, result)
        for positions in ("8", "-9", "x"):
            self.assertEqual(self.run_program("probe", "model", "--tokens", "tokens.json",
                                              f"--positions={positions}").code, 2)
        self.put("bad.json", {"tokens": [[1, 2, 3], [1, 2]]})
        self.refused("probe", "model", "--tokens", "bad.json", says=["bad.json", "tokens[1]"])
        self.put("bad.json", {"tokens": [[1, 2, 64]]})
        self.refused("probe", "model", "--tokens", "bad.json", says=["bad.json", "64"])
        self.put("bad.json", {"text": []})
        self.refused("probe", "model", "--tokens", "bad.json", says=["bad.json", "tokens"])
        self.put("bad.json", {"tokens": [[1, 2]], "targets": [[-100, -100]]})
        self.refused("probe", "model", "--tokens", "bad.json", says=["bad.json", "-100"])

    def test_plan_gives_what_a_step_then_takes(self):
        self.put_tokens()
        self.put_config()
        plan = self.run_program("plan", "run.yaml", "--json", check=0).json()
        self.assertEqual(sorted(plan),
                         ["flops_per_token", "memory_bytes", "parameters", "total_bytes"])
        tensors = support.model_tensors()
        self.assertEqual(plan["parameters"],
                         sum(math.prod(shape) for shape, _ in tensors.values()))
        self.assertEqual(plan["total_bytes"], sum(plan["memory_bytes"].values()))
        steps = self.run_program("train", "run.yaml", "--log-json", check=0).json_lines()
        for category in ("parameters", "gradients", "optimizer"):
            self.assertEqual(steps[-1]["memory"][category], plan["memory_bytes"][category])
        self.assertIn("total", self.run_program("plan", "run.yaml", check=0).out)

    def test_plan_writes_nothing(self):
        self.put_tokens()
        self.put_config()
        before = support.state_of(self.folder)
        self.run_program("plan", "run.yaml", "--json", check=0)
        self.run_program("config", "check", "run.yaml", check=0)
        self.run_program("config", "reference", check=0)
        self.assertEqual(support.state_of(self.folder), before)

    def test_tokenizers_are_trained_on_whatever_data_may_be(self):
        self.put("corpus/a.txt", support.text_of_lines(100))
        self.put("corpus/deep/b.jsonl", '{"body": "the cat sat on the mat"}\n' * 50)
        for files in (["corpus/a.txt"], ["corpus/*.txt"], ["corpus", "--field", "body"]):
            out = self.run_program("tokenizer", "train", *files, "--vocab-size", "290", "--output",
                                   "tok", check=0).out
            self.assertIn("290 tokens", out)
        text = "the cat sat\n  on 12 mats: \u00e9\U0001f600"
        ids = self.run_program("tokenizer", "encode", "--tokenizer", "tok", "--json", text,
                               check=0).json()
        back = self.run_program("tokenizer", "decode", "--tokenizer", "tok", "--", *map(str, ids),
                                check=0).out
        self.assertEqual(back, text + "\n")
        self.put("lines.json", '"a"\n"b c"\n')
        lists = self.run_program("tokenizer", "encode", "--tokenizer", "tok", "--file",
                                 "lines.json", "--json-lines", check=0).json_lines()
        self.assertEqual(len(lists), 2)
        self.refused("tokenizer", "train", "none.txt", says=["none.txt"])
        self.refused("tokenizer", "train", "corpus", says=["b.jsonl:1", '"text"', '"body"'])
        self.refused("tokenizer", "train", "corpus/a.txt", "--vocab-size", "100",
                     says=["100", "256"])
        self.refused("tokenizer", "encode", "--tokenizer", "none", "x", says=["none"])
        self.refused("tokenizer", "encode", "--tokenizer", "tok", says=["text", "--file"])
        self.refused("tokenizer", "decode", "--tokenizer", "tok", "290", says=["290", "289"])

    def test_data_prepare_makes_shards_once(self):
        self.put("text.txt", support.text_of_lines(300))
        model = {key: value for key, value in support.MODEL_CONFIG.items()
                 if key not in ("architectures", "vocab_size")}
        self.put_config(model=model, tokenizer={"train": {"vocab_size": 300}},
                        data={"sources": [{"name": "mine", "paths": ["text.txt"]}]})
        first = self.run_program("data", "prepare", "run.yaml", "--json", check=0)
        self.assertIn("training the tokenizer", first.err)
        self.assertEqual(sorted(first.json()),
                         ["samples_per_epoch", "sources", "validation_samples"])
        source = first.json()["sources"][0]
        self.assertEqual((source["name"], source["files"], source["documents"], source["reused"]),
                         ("mine", 1, 1, False))
        before = support.state_of(self.folder)
        again = self.run_program("data", "prepare", "run.yaml", "--json", check=0)
        self.assertTrue(again.json()["sources"][0]["reused"])
        self.assertNotIn("training the tokenizer", again.err)
        self.assertEqual(support.state_of(self.folder), before)
        trained = self.run_program("train", "run.yaml", check=0)
        self.assertNotIn("training the tokenizer", trained.err)
        self.assertIn("mine", self.run_program("data", "prepare", "run.yaml", check=0).out)

    def test_checkpoint_lists_and_verifies(self):
        self.put_tokens()
        self.put_config(checkpoint={"every": 2})
        self.run_program("train", "run.yaml", check=0)
        lines = self.run_program("checkpoint", "list", "runs/run", "--json", check=0).json_lines()
        self.assertEqual([(line["step"], line["complete"]) for line in lines],
                         [(2, True), (4, True)])
        self.assertEqual(sorted(lines[0]), ["bytes", "complete", "path", "problem", "step"])
        self.run_program("checkpoint", "verify", "runs/run", check=0)
        name = "runs/run/checkpoints/step-00000004/model.safetensors"
        damaged = bytearray(self.read(name))
        damaged[-1] ^= 1
        self.put(name, bytes(damaged))
        result = self.run_program("checkpoint", "verify", "runs/run", check=2)
        self.assertIn("model.safetensors", result.out)
        self.refused("checkpoint", "verify", "runs/run/checkpoints/step-00000004",
                     says=["model.safetensors"])
        self.refused("checkpoint", "list", "none", says=["none"])

    def test_a_model_of_the_checkpoint_trains_on(self):
        self.put_tokens()
        self.put_config()
        self.run_program("train", "run.yaml", check=0)
        self.put_config("tune.yaml", model={"from": "runs/run/checkpoints/step-00000004"})
        lines = self.run_program("train", "tune.yaml", "--log-json", check=0).json_lines()
        self.assertEqual(len(lines), 4)

    def test_every_command_refuses_wrong_arguments(self):
        commands = [["train"], ["eval"], ["generate"], ["probe"], ["plan"], ["bench"],
                    ["bench", "train"], ["config"], ["config", "check"], ["config", "reference"],
                    ["data"], ["data", "prepare"], ["tokenizer"], ["tokenizer", "train"],
                    ["tokenizer", "encode"], ["tokenizer", "decode"], ["checkpoint"],
                    ["checkpoint", "list"], ["checkpoint", "verify"], []]
        before = support.state_of(self.folder)
        for command in commands:
            for wrong in ([], ["--nonsense"], ["--set"], ["a", "b", "c", "d"]):
                if command in (["config", "reference"], ["bench", "train"]) and not wrong:
                    continue
                if command == ["tokenizer", "train"] and wrong == ["a", "b", "c", "d"]:
                    continue
                result = self.run_program(*command, *wrong)
                self.assertEqual(result.code, 2, f"{command + wrong}\n{result.out}\n{result.err}")
                self.assertNotEqual(result.err, "")
            self.assertIn("sage", self.run_program(*command, "--help", check=0).out)
        self.assertEqual(support.state_of(self.folder), before)
        self.assertRegex(self.run_program("--version", check=0).out, r"^\d+\.\d+")
        result = self.run_program("bench", "train", "--shape", "Z", check=2)
        self.assertIn("Z", result.err)

    def test_bench_refuses_keys_that_change_nothing_there(self):
        for key in ("training.learning_rate=1", "training.per_device_train_batch_size=2",
                    "data.sequence_length=8", "training.steps=3"):
            self.refused("bench", "train", "--set", key, says=["--set", key.split("=")[0], "allowed"])


if __name__ == "__main__":
    unittest.main()
