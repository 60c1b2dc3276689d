"""Runs that are stopped, killed, continued, watched, or find no room to write."""

import json
import os
import random
import resource
import signal
import subprocess
import time
import unittest

import support


class TrainingTest(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.put_tokens()

    def checkpoints(self, run="runs/run"):
        folder = self.path(run + "/checkpoints")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def steps(self, run="runs/run"):
        lines = self.read(run + "/metrics.jsonl").decode().splitlines()
        return [json.loads(line)["step"] for line in lines]

    def start_long_run(self, *arguments, **training):
        self.put_config(training={"steps": 1000000, **training})
        return self.start_program("train", "run.yaml", "--output", "runs/run", *arguments)

    def has_steps(self):
        try:
            return self.read("runs/run/metrics.jsonl").count(b"\n") >= 5
        except FileNotFoundError:
            return False

    # Signals.

    def stops_and_continues(self, number):
        process = self.start_long_run()
        self.wait_for(self.has_steps, "five steps", process)
        asked = time.monotonic()
        self.assertEqual(self.stop(process, number), 75)
        self.assertLess(time.monotonic() - asked, 5)  # a step and a checkpoint take milliseconds
        self.assertIn(b"the same command continues", self.read("err"))
        last = self.steps()[-1]
        self.assertEqual(self.checkpoints(), [f"step-{last:08}"])
        # The same command continues, and can be stopped again.
        process = self.start_program("train", "run.yaml", "--output", "runs/run")
        self.wait_for(lambda: self.steps()[-1] >= last + 5, "more steps", process)
        self.assertEqual(self.stop(process, number), 75)
        self.assertIn(f"resumed path=\"step-{last:08}\"".encode(), self.read("err"))
        steps = self.steps()
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_sigterm_saves_and_the_same_command_continues(self):
        self.stops_and_continues(signal.SIGTERM)

    def test_sigint_saves_and_the_same_command_continues(self):
        self.stops_and_continues(signal.SIGINT)

    def test_a_closed_terminal_saves_and_the_same_command_continues(self):
        self.stops_and_continues(signal.SIGHUP)

    def test_a_stop_is_heard_while_the_tokenizer_is_trained(self):
        words = random.Random(5)
        self.put("text.txt", " ".join("".join(words.choices("abcdefghijklmnop", k=9))
                                      for _ in range(300000)))
        model = {key: value for key, value in support.MODEL_CONFIG.items() if key != "vocab_size"}
        self.put_config(model=model, tokenizer={"train": {"vocab_size": 60000}},
                        data={"sources": [{"paths": ["text.txt"]}]})
        before = support.state_of(self.path("."))
        process = self.start_program("train", "run.yaml", "--output", "runs/run")
        self.wait_for(lambda: b"training the tokenizer" in self.read("err"), "training", process)
        asked = time.monotonic()
        self.assertEqual(self.stop(process, signal.SIGTERM), 75)
        self.assertLess(time.monotonic() - asked, 5)  # the whole training takes longer
        self.assertIn(b"the same command continues", self.read("err"))
        after = support.state_of(self.path("."))
        self.assertEqual([name for name in after if name not in before and name not in
                          ("err", "out")], [])

    def test_a_stop_is_heard_while_data_are_prepared(self):
        self.put_tokens("tokens.json", sequences=200000)
        process = self.start_long_run()
        self.wait_for(lambda: b"preparing source" in self.read("err"), "preparation", process)
        self.assertEqual(self.stop(process, signal.SIGINT), 75)
        self.assertFalse([name for name in os.listdir(self.path(".")) if "tmp" in name])
        process = self.start_program("train", "run.yaml", "--output", "runs/run")
        self.wait_for(self.has_steps, "five steps", process)
        self.assertEqual(self.stop(process, signal.SIGINT), 75)

    def test_a_reader_that_goes_away_stops_the_run_with_a_checkpoint(self):
        self.put_config(training={"steps": 1000000})
        command = [support.PROGRAM, "train", "run.yaml", "--output", "runs/run", "--log-json"]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), 75)
        self.assertIn(b"stdout cannot be written", error)
        self.assertEqual(len(self.checkpoints()), 1)

    def test_what_cannot_be_printed_is_a_failure(self):
        self.put_config(training={"steps": 3})
        with open("/dev/full", "wb") as full:
            done = subprocess.run([support.PROGRAM, "plan", "run.yaml"], cwd=self.folder, stdout=full,
                                  stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write to stdout", done.stderr)

    def test_a_stop_is_heard_in_an_evaluation(self):
        # Every step evaluates for seconds.
        self.put_tokens("validation.json", sequences=20000)
        process = self.start_long_run("--set", "data.validation=[{paths: [validation.json]}]",
                                      eval_every=3)
        self.wait_for(lambda: os.path.exists(self.path("runs/run/metrics.jsonl"))
                      and len(self.steps()) >= 2, "two steps", process)
        time.sleep(0.1)
        asked = time.monotonic()
        self.assertEqual(self.stop(process), 75)
        self.assertLess(time.monotonic() - asked, 5)

    def test_a_kill_in_the_middle_of_a_save_costs_nothing_but_the_steps_since(self):
        self.put_config(training={"steps": 12})
        command = ["train", "run.yaml", "--set", "checkpoint.every=1"]
        self.run_program(*command, "--output", "runs/whole", check=0)
        whole = self.read("runs/whole/checkpoints/step-00000012/model.safetensors")
        for _ in range(20):
            subprocess.run(["rm", "-rf", self.path("runs/run")], check=True)
            process = self.start_program(*command, "--output", "runs/run")
            # After some checkpoints are complete, in the middle of another.
            self.wait_for(lambda: len(self.checkpoints()) >= 2, "checkpoints", process)
            while process.poll() is None:
                if any(name.startswith(".tmp-") for name in self.checkpoints()):
                    process.kill()
                    process.wait()
            if any(name.startswith(".tmp-step-") for name in self.checkpoints()):
                break
        else:
            self.fail("no save was met")
        complete = [name for name in self.checkpoints() if name.startswith("step-")]
        result = self.run_program(*command, "--output", "runs/run", check=0)
        self.assertIn(f'resumed path="{complete[-1]}"', result.err)
        self.assertEqual(self.read("runs/run/checkpoints/step-00000012/model.safetensors"), whole)
        self.assertEqual(self.steps(), list(range(1, 13)))
        self.assertFalse([name for name in self.checkpoints() if name.startswith(".tmp-")])

    def test_a_checkpoint_that_is_damaged_is_passed_over_with_a_note(self):
        self.put_config(training={"steps": 6})
        command = ["train", "run.yaml", "--set", "checkpoint.every=2", "--output", "runs/run"]
        self.run_program(*command, check=0)
        self.assertEqual(self.checkpoints(), ["step-00000004", "step-00000006"])
        name = "runs/run/checkpoints/step-00000006/model.safetensors"
        whole = self.read(name)
        damaged = bytearray(whole)
        damaged[-3] ^= 1
        self.put(name, bytes(damaged))
        result = self.run_program(*command, check=0)
        self.assertIn("step-00000006", result.err)
        self.assertIn('resumed path="step-00000004"', result.err)
        self.assertEqual(self.read(name), whole)

    # Resuming.

    def test_a_run_that_is_done_has_nothing_to_do(self):
        self.put_config()
        self.run_program("train", "run.yaml", check=0)
        before = self.read("runs/run/metrics.jsonl")
        self.run_program("train", "run.yaml", check=0)
        self.assertEqual(self.read("runs/run/metrics.jsonl"), before)

    def test_a_run_that_was_done_elsewhere_names_the_checkpoint_that_exists(self):
        self.put_config()
        self.run_program("train", "run.yaml", "--output", "runs/a", check=0)
        result = self.run_program("train", "run.yaml", "--output", "runs/b", "--resume", "runs/a",
                                  check=0)
        named = [line.split()[1] for line in result.out.splitlines()
                 if line.startswith("checkpoint ")]
        self.assertEqual(len(named), 1)
        self.assertTrue(os.path.isdir(self.path(named[0])), named)

    def test_the_tokenizers_files_come_from_where_the_tokenizer_came_from(self):
        self.put("text.txt", support.text_of_lines(300))
        self.run_program("tokenizer", "train", "text.txt", "--vocab-size", "260", "--output",
                         "words", check=0)
        self.put_model(config={**support.MODEL_CONFIG, "vocab_size": 300})
        self.put("model/special_tokens_map.json", {"eos_token": "of the model"})
        self.put("model/generation_config.json", {"max_length": 7})
        self.put_config(model={"from": "model", "load_weights": False},
                        tokenizer={"from": "words/tokenizer.json"},
                        data={"sources": [{"paths": ["text.txt"]}]})
        self.run_program("train", "run.yaml", check=0)
        saved = "runs/run/checkpoints/" + self.checkpoints()[-1]
        self.assertEqual(self.read(saved + "/tokenizer.json"), self.read("words/tokenizer.json"))
        self.assertIn("generation_config.json", os.listdir(self.path(saved)))
        self.assertNotIn("special_tokens_map.json", os.listdir(self.path(saved)))

    def test_a_run_goes_on_without_the_weights_that_it_began_with(self):
        self.put_model()
        self.put_config(model={"from": "model"})
        self.run_program("train", "run.yaml", check=0)
        os.remove(self.path("model/model.safetensors"))
        self.run_program("train", "run.yaml", "--set", "training.steps=6", check=0)
        self.assertEqual(self.steps(), list(range(1, 7)))

    def test_a_key_that_may_not_change_is_refused_by_name(self):
        self.put_config()
        self.run_program("train", "run.yaml", check=0)
        self.refused("train", "run.yaml", "--set", "model.hidden_size=32",
                     says=["model.hidden_size", "16", "32", "--output"])
        self.refused("train", "run.yaml", "--set", "training.seed=5", "--set",
                     "data.sequence_length=8", says=["training.seed", "data.sequence_length"])
        self.refused("train", "run.yaml", "--set", "training.micro_batch_size=4",
                     says=["global batch", "2", "4"])
        self.refused("train", "run.yaml", "--resume", "never", says=["--resume never", "--output"])

    def test_other_keys_that_change_are_reported(self):
        self.put_config()
        self.run_program("train", "run.yaml", check=0)
        result = self.run_program("train", "run.yaml", "--set", "training.steps=6", "--set",
                                  "training.learning_rate=0.002", check=0)
        self.assertIn("training.learning_rate: 0.01 in the saved run, 0.002 now", result.err)
        self.assertEqual(self.steps(), [1, 2, 3, 4, 5, 6])

    def test_a_run_takes_up_another_runs_checkpoint(self):
        self.put_config(training={"steps": 6})
        command = ["train", "run.yaml", "--set", "checkpoint.every=2"]
        self.run_program(*command, "--output", "runs/a", "--set", "checkpoint.keep=0", check=0)
        self.run_program(*command, "--output", "runs/b", "--resume",
                         "runs/a/checkpoints/step-00000002", check=0)
        self.assertEqual(self.steps("runs/b"), [3, 4, 5, 6])
        last = "/checkpoints/step-00000006/model.safetensors"
        self.assertEqual(self.read("runs/a" + last), self.read("runs/b" + last))
        self.refused(*command, "--output", "runs/c", "--resume", "runs/none",
                     says=["runs/none"])

    # Places that cannot be written.

    def fails_to_save_and_goes_on(self, make_room, **limits):
        """A complete checkpoint of step 2 is there; now there is no room for another."""
        saved = support.state_of(self.path("runs/run/checkpoints"))
        self.assertIn("step-00000002", saved)
        command = ["train", "run.yaml", "--set", "training.steps=4", "--set", "checkpoint.keep=0"]
        result = self.run_program(*command, check=1, **limits)
        last = result.err.splitlines()[-1]
        self.assertIn("cadre: ", last)
        self.assertIn("step-00000002", last)
        self.assertEqual(support.state_of(self.path("runs/run/checkpoints")), saved)
        make_room()
        self.run_program(*command, check=0)
        self.assertEqual(self.steps(), [1, 2, 3, 4])

    def test_a_file_that_may_not_grow_ends_with_1_and_the_last_checkpoint_stays(self):
        self.put_config(training={"steps": 2})
        self.run_program("train", "run.yaml", check=0)
        # The optimizer's file is larger than this, all else is smaller.
        limit = 24 << 10
        self.fails_to_save_and_goes_on(
            lambda: None, restore_signals=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))

    def test_a_full_disk_ends_with_1_and_the_last_checkpoint_stays(self):
        run = self.path("runs/run")
        os.makedirs(run)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", run],
                                 stderr=subprocess.DEVNULL, check=False)
        if mounted.returncode != 0:
            self.skipTest("only root may mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "--lazy", run], check=False)
        self.put_config(training={"steps": 2})
        self.run_program("train", "run.yaml", check=0)
        disk = os.statvfs(run)
        left = 48 << 10  # less than a checkpoint takes
        self.put("runs/run/ballast", bytes(disk.f_bavail * disk.f_frsize - left))
        self.fails_to_save_and_goes_on(lambda: os.remove(self.path("runs/run/ballast")))

    def test_a_file_in_the_place_of_the_run_folder_is_found_first(self):
        self.put_config()
        self.put("taken", "")
        self.refused("train", "run.yaml", "--output", "taken", says=["taken", "not a folder"])
        self.refused("train", "run.yaml", "--output", "taken/run", says=["taken"])

    def test_a_file_in_the_place_of_the_checkpoints_is_found_first(self):
        self.put_config()
        self.put("runs/run/checkpoints", "")
        self.refused("train", "run.yaml", says=["runs/run/checkpoints"])

    def test_a_place_where_nothing_can_be_made_is_found_first(self):
        self.put_config()
        self.refused("train", "run.yaml", "--output", "/proc/run", says=["/proc"])

    def test_a_run_folder_in_which_another_process_trains_is_refused(self):
        process = self.start_long_run()
        self.wait_for(self.has_steps, "five steps", process)
        os.kill(process.pid, signal.SIGSTOP)  # so that it changes nothing while we look
        try:
            self.refused("train", "run.yaml", "--output", "runs/run",
                         says=["runs/run", f"process {process.pid}", "in use"])
        finally:
            os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(self.stop(process), 75)

    # What is shown.

    def test_log_json_prints_one_object_a_step_and_nothing_else(self):
        self.put_config(training={"eval_every": 2})
        result = self.run_program("train", "run.yaml", "--log-json", check=0)
        lines = result.json_lines()
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4])
        for line in lines:
            for key in ("loss", "grad_norm", "lr", "tokens", "tokens_per_second", "mfu", "step_ms"):
                self.assertIsInstance(line[key], (int, float), key)
            for key in ("parameters", "gradients", "optimizer", "activations", "workspace"):
                self.assertIn(key, line["memory"])
        self.assertEqual([line["tokens"] for line in lines], [32, 64, 96, 128])
        self.assertEqual(["validation_loss" in line for line in lines], [False, True, False, True])
        metrics = self.read("runs/run/metrics.jsonl").decode().splitlines()
        self.assertEqual([json.loads(line) for line in metrics], lines)

    def test_piped_output_is_plain_lines(self):
        self.put_config()
        result = self.run_program("train", "run.yaml", check=0)
        self.assertNotIn("\r", result.out + result.err)
        self.assertNotIn("\x1b", result.out + result.err)
        lines = result.out.splitlines()
        self.assertRegex(lines[0], r"^step 1/4  loss \d+\.\d+ .* tokens/s .* ETA ")
        self.assertTrue(any(line.startswith("step 4/4 ") for line in lines))
        self.assertTrue(any(line.startswith("validation loss ") for line in lines))
        self.assertIn("runs/run/checkpoints/step-00000004", result.out)

    def test_the_run_folder_holds_what_the_documents_say(self):
        self.put("text.txt", support.text_of_lines(300))
        model = {key: value for key, value in support.MODEL_CONFIG.items()
                 if key not in ("architectures", "vocab_size")}
        self.put_config(model=model, tokenizer={"train": {"vocab_size": 300}},
                        data={"sources": [{"paths": ["text.txt"]}]},
                        sample={"prompt": "the cat", "tokens": 5})
        result = self.run_program("train", "run.yaml", check=0)
        self.assertIn("sample: the cat", result.out)
        names = sorted(os.listdir(self.path("runs/run")))
        names = [name for name in names if not name.startswith("events.out.tfevents.")]
        self.assertEqual(names, [".lock", "checkpoints", "log", "metrics.jsonl", "run.yaml",
                                 "tokenizer.json", "tokenizer_config.json"])
        files = sorted(os.listdir(self.path("runs/run/checkpoints/step-00000004")))
        self.assertEqual(files, ["config.json", "manifest.json", "model.safetensors",
                                 "optimizer-00001-of-00001.safetensors", "run.yaml",
                                 "tokenizer.json", "tokenizer_config.json", "trainer_state.json"])
        # A lone text file is one document: its last lines validate, and that is said.
        self.assertIn("validate", result.err)
        self.assertIn("validation loss", result.out)


if __name__ == "__main__":
    unittest.main()
