"""What the tests of the program share: it runs as a process, in a folder of the test's own."""

import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["CADRE_PROGRAM"]
SECONDS_MAX = 60  # no test waits for a process longer


def state_of(folder):
    """Every path below the folder, with its kind, its time and a checksum of its content."""
    state = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            digest = ""
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
            # A folder's time changes when a file was made in it and removed again.
            time_ns = 0 if os.path.isdir(path) else os.stat(path).st_mtime_ns
            state[os.path.relpath(path, folder)] = (digest, time_ns)
    return state


def text_of_lines(count):
    """Text with some variety, the same on every machine."""
    words = "the cat dog sat ran on under mat tree and a red blue bird sang slowly home".split()
    lines = []
    number = 1
    for _ in range(count):
        line = []
        for _ in range(9):
            number = (number * 48271) % 2147483647
            line.append(words[number % len(words)])
        lines.append(" ".join(line) + ".")
    return "\n".join(lines) + "\n"


def safetensors(tensors, header_length=None, raw_header=None):
    """The bytes of a file of F32 tensors: {name: (shape, values or None for small numbers)}."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        count = 1
        for size in shape:
            count *= size
        if values is None:
            values = [((i * 7 + len(name)) % 13 - 6) * 0.01 for i in range(count)]
        part = struct.pack(f"<{count}f", *values)
        header[name] = {
            "dtype": "F32",
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    text = raw_header if raw_header is not None else json.dumps(header)
    text = text if isinstance(text, bytes) else text.encode()
    text += b" " * (-len(text) % 8)
    length = len(text) if header_length is None else header_length
    return struct.pack("<Q", length) + text + data


WIDTH, MLP, VOCABULARY = 16, 24, 64

MODEL_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": MLP,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def model_tensors():
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (VOCABULARY, WIDTH),
        layer + "input_layernorm.weight": (WIDTH,),
        layer + "mlp.down_proj.weight": (WIDTH, MLP),
        layer + "mlp.gate_proj.weight": (MLP, WIDTH),
        layer + "mlp.up_proj.weight": (MLP, WIDTH),
        layer + "post_attention_layernorm.weight": (WIDTH,),
        layer + "self_attn.k_proj.weight": (WIDTH, WIDTH),
        layer + "self_attn.o_proj.weight": (WIDTH, WIDTH),
        layer + "self_attn.q_proj.weight": (WIDTH, WIDTH),
        layer + "self_attn.v_proj.weight": (WIDTH, WIDTH),
        "model.norm.weight": (WIDTH,),
        "lm_head.weight": (VOCABULARY, WIDTH),
    }
    return {name: (shape, None) for name, shape in shapes.items()}


class Finished:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)

    def json_lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cadre-program-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    # Files.

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        elif isinstance(content, (dict, list)):
            content = json.dumps(content).encode()
        with open(path, "wb") as file:
            file.write(content)
        return path

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def put_tokens(self, name="tokens.json", sequences=40, length=20):
        lists = [[(7 * i + 3 * j + i * j) % VOCABULARY for j in range(length)]
                 for i in range(sequences)]
        return self.put(name, {"tokens": lists})

    def put_model(self, folder="model", config=None, weights=None):
        self.put(folder + "/config.json", MODEL_CONFIG if config is None else config)
        if weights is None:
            weights = safetensors(model_tensors())
        self.put(folder + "/model.safetensors", weights)

    def put_config(self, name="run.yaml", model=None, tokenizer=None, data=None, training=None,
                   **sections):
        """A run of a tiny model on lists of tokens; JSON is YAML. None as a value: left out."""
        inline = {key: value for key, value in MODEL_CONFIG.items() if key != "architectures"}
        config = {
            "model": inline if model is None else model,
            "data": {"sources": [{"paths": ["tokens.json"]}], "sequence_length": 16},
            "training": {"steps": 4, "micro_batch_size": 2, "learning_rate": 1e-2},
            "threads": 1,
        }
        config["data"].update(data or {})
        config["training"].update(training or {})
        if tokenizer is not None:
            config["tokenizer"] = tokenizer
        config.update(sections)
        return self.put(name, config)

    # Processes.

    def run_as_nobody(self, *arguments, check=None):
        """As a user who may read the folder and write nowhere in it. Only root can ask for it."""
        program = self.path("bin/cadre")
        if not os.path.exists(program):  # where it was built he may have no way to
            os.makedirs(os.path.dirname(program))
            shutil.copy(PROGRAM, program)
            os.chmod(program, 0o755)
            os.chmod(self.folder, 0o755)
        return self.run_program(*arguments, check=check, program=program, user=65534)

    def run_program(self, *arguments, check=None, program=PROGRAM, **options):
        given = {"cwd": self.folder, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                 "stderr": subprocess.PIPE, "timeout": SECONDS_MAX, **options}
        done = subprocess.run([program, *arguments], **given)
        result = Finished(done.returncode, (done.stdout or b"").decode(),
                          done.stderr.decode(errors="replace"))
        if check is not None:
            self.assertEqual(result.code, check, f"{arguments}\n{result.out}\n{result.err}")
        return result

    def start_program(self, *arguments, **options):
        """A process that goes on; its output goes to the files `out` and `err` of the folder."""
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdout=out,
                                       stderr=err, stdin=subprocess.DEVNULL, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.wait()

    def wait_for(self, condition, what, process=None):
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited in vain for {what}")
            if process is not None:
                self.assertIsNone(process.poll(), f"ended before {what}: {self.read('err')}")
            time.sleep(0.002)

    def stop(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        return process.wait(SECONDS_MAX)

    # Claims.

    def refused(self, *arguments, says, program_options=None):
        """Exit code 2, one message that has all of `says`, and nothing written or changed."""
        before = state_of(self.folder)
        result = self.run_program(*arguments, **(program_options or {}))
        self.assertEqual(result.code, 2, f"{arguments}\n{result.out}\n{result.err}")
        self.assertEqual(result.out, "")
        messages = [line for line in result.err.splitlines() if line.startswith("cadre: ")]
        self.assertEqual(len(messages), 1, result.err)
        message = result.err[result.err.index(messages[0]):]
        for part in says:
            self.assertIn(part, message)
        after = state_of(self.folder)
        self.assertEqual(sorted(before), sorted(after), "files came or went")
        self.assertEqual(before, after, "files changed")
        return message
