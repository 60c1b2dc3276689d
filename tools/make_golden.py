#!/usr/bin/env python3
"""Small models with expected results, computed in double precision by PyTorch.

Usage: make_golden.py OUTPUT [NAME...]        (OUTPUT: tests/data; NAME: only these)

Writes OUTPUT/golden/NAME/{config,weights,tokens,expected}.json and OUTPUT/rotary.json; what is in
them says tests/data/golden/README.md. Weights are not stored: they come from a 64-bit linear
congruential generator that any program can run. Nothing here is shared with cadre's own code.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
IGNORED = -100
DOUBLE = torch.float64


class Lcg:
    """s = 6364136223846793005 s + 1442695040888963407 (mod 2^64); gives the upper 24 bits."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        return self.state >> 40

    def uniform(self, shape, deviation):
        width = deviation * math.sqrt(12.0)
        count = math.prod(shape)
        values = [(self.next() / 16777216.0 - 0.5) * width for _ in range(count)]
        return torch.tensor(values, dtype=DOUBLE).float().view(*shape)


class Weights:
    """Tensors in the order in which they are drawn, and how to draw them again."""

    def __init__(self, seed, stored):
        self.lcg, self.seed, self.stored = Lcg(seed), seed, stored
        self.tensors, self.recipe = {}, []

    def add(self, name, shape, deviation, offset=0.0):
        value = self.lcg.uniform(shape, deviation)
        if offset:
            value = offset + value  # in float
        if self.stored == "BF16":
            value = value.bfloat16().float()
        self.tensors[name] = value
        self.recipe.append(dict(name=name, shape=list(shape), deviation=deviation, offset=offset))


# --- Families -----------------------------------------------------------------------------------


def llama_weights(c, weights):
    d, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    width = c.get("head_dim") or d // heads
    ffn, kind = c["intermediate_size"], c["model_type"]
    qkv_bias = kind == "qwen2" or c.get("attention_bias", False)
    output_bias = kind != "qwen2" and c.get("attention_bias", False)
    weights.add("model.embed_tokens.weight", (c["vocab_size"], d), 0.5)
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        a, m = p + "self_attn.", p + "mlp."
        weights.add(p + "input_layernorm.weight", (d,), 0.1, 1.0)
        weights.add(a + "q_proj.weight", (heads * width, d), 1.3 / math.sqrt(d))
        weights.add(a + "k_proj.weight", (kv * width, d), 1.3 / math.sqrt(d))
        weights.add(a + "v_proj.weight", (kv * width, d), 1 / math.sqrt(d))
        weights.add(a + "o_proj.weight", (d, heads * width), 1 / math.sqrt(heads * width))
        if qkv_bias:
            weights.add(a + "q_proj.bias", (heads * width,), 0.3)
            weights.add(a + "k_proj.bias", (kv * width,), 0.3)
            weights.add(a + "v_proj.bias", (kv * width,), 0.3)
        if output_bias:
            weights.add(a + "o_proj.bias", (d,), 0.3)
        if kind == "qwen3":
            weights.add(a + "q_norm.weight", (width,), 0.2, 1.5)
            weights.add(a + "k_norm.weight", (width,), 0.2, 1.5)
        weights.add(p + "post_attention_layernorm.weight", (d,), 0.1, 1.0)
        weights.add(m + "gate_proj.weight", (ffn, d), 1 / math.sqrt(d))
        weights.add(m + "up_proj.weight", (ffn, d), 1 / math.sqrt(d))
        weights.add(m + "down_proj.weight", (d, ffn), 1 / math.sqrt(ffn))
        if c.get("mlp_bias"):
            weights.add(m + "gate_proj.bias", (ffn,), 0.3)
            weights.add(m + "up_proj.bias", (ffn,), 0.3)
            weights.add(m + "down_proj.bias", (d,), 0.3)
    weights.add("model.norm.weight", (d,), 0.1, 1.0)
    if not c["tie_word_embeddings"]:
        weights.add("lm_head.weight", (c["vocab_size"], d), 1 / math.sqrt(d))


def gpt2_weights(c, weights):
    d = c["n_embd"]
    ffn = c["n_inner"] or 4 * d
    weights.add("transformer.wte.weight", (c["vocab_size"], d), 0.3)
    weights.add("transformer.wpe.weight", (c["n_positions"], d), 0.3)
    for layer in range(c["n_layer"]):
        p = f"transformer.h.{layer}."
        weights.add(p + "ln_1.weight", (d,), 0.1, 1.0)
        weights.add(p + "ln_1.bias", (d,), 0.2)
        # Stored [input, output].
        weights.add(p + "attn.c_attn.weight", (d, 3 * d), 1.2 / math.sqrt(d))
        weights.add(p + "attn.c_attn.bias", (3 * d,), 0.3)
        weights.add(p + "attn.c_proj.weight", (d, d), 1 / math.sqrt(d))
        weights.add(p + "attn.c_proj.bias", (d,), 0.2)
        weights.add(p + "ln_2.weight", (d,), 0.1, 1.0)
        weights.add(p + "ln_2.bias", (d,), 0.2)
        weights.add(p + "mlp.c_fc.weight", (d, ffn), 1.5 / math.sqrt(d))
        weights.add(p + "mlp.c_fc.bias", (ffn,), 0.3)
        weights.add(p + "mlp.c_proj.weight", (ffn, d), 1 / math.sqrt(ffn))
        weights.add(p + "mlp.c_proj.bias", (d,), 0.2)
    weights.add("transformer.ln_f.weight", (d,), 0.1, 1.0)
    weights.add("transformer.ln_f.bias", (d,), 0.2)
    if not c["tie_word_embeddings"]:
        weights.add("lm_head.weight", (c["vocab_size"], d), 1 / math.sqrt(d))


def rope_keys(c):
    given = c.get("rope_scaling") or c.get("rope_parameters") or {}
    theta = given.get("rope_theta", c.get("rope_theta", 10000.0))
    return theta, given.get("rope_type", given.get("type", "default")), given


def rotary_frequencies(c, length):
    """(one frequency for each pair of channels, what multiplies cosine and sine)"""
    theta, kind, rope = rope_keys(c)
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    pretrained = c["max_position_embeddings"]
    pairs = dim // 2
    if kind == "dynamic":
        longest = max(length, pretrained)
        stretch = rope["factor"] * longest / pretrained - (rope["factor"] - 1)
        theta = theta * stretch ** (dim / (dim - 2))
    plain = [theta ** (-2 * i / dim) for i in range(pairs)]
    if kind in ("default", "dynamic"):
        return plain, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return [f / factor for f in plain], 1.0
    original = rope.get("original_max_position_embeddings", pretrained)
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        result = []
        for f in plain:
            wavelength = 2 * math.pi / f
            if wavelength < original / high:
                result.append(f)
            elif wavelength > original / low:
                result.append(f / factor)
            else:
                smooth = (original / wavelength - low) / (high - low)
                result.append((1 - smooth) * f / factor + smooth * f)
        return result, 1.0
    assert kind == "yarn", kind

    def pair_of(rotations):
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_of(rope.get("beta_fast") or 32), pair_of(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    result = []
    for i, f in enumerate(plain):
        keep = 1 - min(max((i - low) / (high - low), 0), 1)
        result.append(f / factor * (1 - keep) + f * keep)

    def magnitude(mscale):
        return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0

    if rope.get("attention_factor") is not None:
        return result, rope["attention_factor"]
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return result, magnitude(rope["mscale"]) / magnitude(rope["mscale_all_dim"])
    return result, magnitude(1.0)


def window_of(c, layer):
    if c["model_type"] == "mistral":
        return c["sliding_window"] or 0
    if c.get("use_sliding_window"):
        if "layer_types" in c:
            return c["sliding_window"] if c["layer_types"][layer] == "sliding_attention" else 0
        return c["sliding_window"] if layer >= c["max_window_layers"] else 0
    return 0


def may_see(batch, window):
    """[B, S, S]: whether position i sees position j."""
    length = batch["tokens"].shape[1]
    i, j = torch.arange(length).view(1, -1, 1), torch.arange(length).view(1, 1, -1)
    seen = (j <= i) & (j >= batch["starts"].unsqueeze(-1))
    return seen & (j > i - window) if window else seen


def attend(q, k, v, seen):
    """q [B, H, S, D]; k and v [B, G, S, D]"""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~seen.unsqueeze(1), float("-inf"))
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)


def llama_logits(c, w, batch):
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    sequences, length = batch["tokens"].shape
    frequencies, magnitude = rotary_frequencies(c, length)
    angles = batch["positions"].to(DOUBLE).unsqueeze(-1) * torch.tensor(frequencies, dtype=DOUBLE)
    cosine, sine = (angles.cos() * magnitude).unsqueeze(1), (angles.sin() * magnitude).unsqueeze(1)

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["rms_norm_eps"]) * w[name]

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def turn(x):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    x = w["model.embed_tokens.weight"][batch["tokens"]]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        a, m = p + "self_attn.", p + "mlp."
        h = norm(x, p + "input_layernorm.weight")
        q, k, v = (linear(h, a + n).view(sequences, length, count, -1)
                   for n, count in (("q_proj", heads), ("k_proj", kv), ("v_proj", kv)))
        if c["model_type"] == "qwen3":
            q, k = norm(q, a + "q_norm.weight"), norm(k, a + "k_norm.weight")
        q, k, v = turn(q.transpose(1, 2)), turn(k.transpose(1, 2)), v.transpose(1, 2)
        x = x + linear(attend(q, k, v, may_see(batch, window_of(c, layer))), a + "o_proj")
        h = norm(x, p + "post_attention_layernorm.weight")
        x = x + linear(F.silu(linear(h, m + "gate_proj")) * linear(h, m + "up_proj"), m + "down_proj")
    head = "model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, "model.norm.weight") @ w[head].T


def gpt2_logits(c, w, batch):
    sequences, length = batch["tokens"].shape
    heads = c["n_head"]

    def norm(x, name):
        x = x - x.mean(-1, keepdim=True)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["layer_norm_epsilon"])
        return x * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))

    x = w["transformer.wte.weight"][batch["tokens"]]
    x = x + w["transformer.wpe.weight"][batch["positions"]]
    for layer in range(c["n_layer"]):
        p = f"transformer.h.{layer}."
        q, k, v = (t.view(sequences, length, heads, -1).transpose(1, 2)
                   for t in linear(norm(x, p + "ln_1"), p + "attn.c_attn").chunk(3, -1))
        x = x + linear(attend(q, k, v, may_see(batch, 0)), p + "attn.c_proj")
        x = x + linear(gelu(linear(norm(x, p + "ln_2"), p + "mlp.c_fc")), p + "mlp.c_proj")
    head = "transformer.wte.weight" if c["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, "transformer.ln_f") @ w[head].T


# --- Batches, losses and steps ------------------------------------------------------------------


def make_batch(case, lcg):
    vocabulary, length = case["config"]["vocab_size"], case["sequence_length"]
    rows = [[lcg.next() % vocabulary for _ in range(length + 1)] for _ in range(case["sequences"])]
    tokens = torch.tensor(rows)
    targets = tokens[:, 1:].clone()
    for sequence, first, last in case.get("ignored", []):
        targets[sequence, first:last] = IGNORED
    starts = torch.zeros(len(rows), length, dtype=torch.long)
    for sequence, first in case.get("documents", []):  # ascending
        starts[sequence, first:] = first
    positions = torch.arange(length).unsqueeze(0) - starts
    return dict(rows=rows, tokens=tokens[:, :-1], targets=targets, starts=starts,
                positions=positions)


def losses(case, w, batch):
    """(logits, mean cross entropy, z-loss with its coefficient)"""
    c = case["config"]
    logits = (gpt2_logits if c["model_type"] == "gpt2" else llama_logits)(c, w, batch)
    flat, targets = logits.flatten(0, 1), batch["targets"].flatten()
    entropy = F.cross_entropy(flat, targets, ignore_index=IGNORED)
    z = case.get("z_loss", 0.0) * torch.logsumexp(flat, -1)[targets != IGNORED].pow(2).mean()
    return logits, entropy, z


def gradient_norm(parameters):
    return float(torch.sqrt(sum(p.grad.pow(2).sum() for p in parameters)))


def shared_learning_rate(step):
    if step < 3:
        return 1e-3 * (step + 1) / 3
    return 1e-3 * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - 3) / 7)))


ADAMW = dict(kind="adamw", beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1)
SGD = dict(kind="sgd", momentum=0.9, nesterov=False, weight_decay=0.1)


def optimizer_of(recipe, w):
    """Decay is decoupled, and only of tensors with two dimensions or more."""
    groups = [dict(params=[p for p in w.values() if p.dim() >= 2], decay=recipe["weight_decay"]),
              dict(params=[p for p in w.values() if p.dim() < 2], decay=0.0)]
    if recipe["kind"] == "adamw":
        for group in groups:
            group["weight_decay"] = group["decay"]
        return torch.optim.AdamW(groups, lr=1.0, betas=(recipe["beta1"], recipe["beta2"]),
                                 eps=recipe["epsilon"])
    # torch.optim.SGD couples its decay, so decay is applied apart, in train().
    return torch.optim.SGD(groups, lr=1.0, momentum=recipe["momentum"],
                           nesterov=recipe["nesterov"], weight_decay=0.0)


def train(case, weights, batch, recipe, learning_rates, max_norm):
    w = {k: v.clone().to(DOUBLE).requires_grad_(True) for k, v in weights.items()}
    optimizer = optimizer_of(recipe, w)
    result = dict(optimizer=recipe, learning_rates=learning_rates, max_grad_norm=max_norm,
                  losses=[], z_losses=[], grad_norms=[])
    for rate in learning_rates:
        optimizer.zero_grad()
        _, entropy, z = losses(case, w, batch)
        (entropy + z).backward()
        norm = gradient_norm(w.values())
        scale = min(1.0, max_norm / (norm + 1e-6))
        for p in w.values():
            p.grad.mul_(scale)
        for group in optimizer.param_groups:
            group["lr"] = rate
            if recipe["kind"] == "sgd":
                for p in group["params"]:
                    p.data.mul_(1 - rate * group["decay"])
        optimizer.step()
        result["losses"].append(float(entropy))
        result["z_losses"].append(float(z))
        result["grad_norms"].append(norm)
    with torch.no_grad():
        result["loss_after"] = float(losses(case, w, batch)[1])
    result["final_first4"] = {k: numbers(p.reshape(-1)[:4]) for k, p in w.items()}
    return result


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().reshape(-1).tolist()]


def expectations(case, weights, batch):
    w = {k: v.clone().to(DOUBLE).requires_grad_(True) for k, v in weights.items()}
    logits, entropy, z = losses(case, w, batch)
    (entropy + z).backward()
    last = case["sequence_length"] - 1
    positions = [0, 1, 2, 3 if case.get("shared_recipe") else last // 2, last]
    result = dict(
        loss=float(entropy), z_loss=float(z), z_loss_coefficient=case.get("z_loss", 0.0),
        target_tokens=int((batch["targets"] != IGNORED).sum()), logits_sequence=0,
        logits_positions=positions, logits=[numbers(logits[0, p]) for p in positions],
        grad_norm_total=gradient_norm(w.values()),
        grad_norm={k: numbers(p.grad.norm())[0] for k, p in w.items()},
        grad_rms={k: numbers(p.grad.pow(2).mean().sqrt())[0] for k, p in w.items()},
        grad_first8={k: numbers(p.grad.reshape(-1)[:8]) for k, p in w.items()})
    if case.get("shared_recipe"):
        rates = [shared_learning_rate(step) for step in range(10)]
        result["training"] = [train(case, weights, batch, ADAMW, rates, 1.0)]
    else:
        result["training"] = [train(case, weights, batch, ADAMW, [2e-3, 4e-3, 3e-3, 2e-3], 0.25),
                              train(case, weights, batch, SGD, [0.05, 0.1, 0.05, 0.02], 0.5)]
        assert all(max(t["grad_norms"]) > t["max_grad_norm"] for t in result["training"])  # clips
    return result


def compact(value, depth=0):
    """JSON with one line for each entry of the outer two levels: small, and readable in a diff."""
    if isinstance(value, dict) and depth < 2:
        inside = ",\n".join(" " * (depth + 1) + json.dumps(k) + ": " + compact(v, depth + 1)
                            for k, v in value.items())
        return "{\n" + inside + "\n" + " " * depth + "}"
    if isinstance(value, list) and depth < 2 and any(isinstance(v, (list, dict)) for v in value):
        inside = ",\n".join(" " * (depth + 1) + compact(v, depth + 1) for v in value)
        return "[\n" + inside + "\n" + " " * depth + "]"
    return json.dumps(value, separators=(",", ":"))


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(compact(value) + "\n")


def make(folder, case):
    c = case["config"]
    weights = Weights(case["seed"], case.get("stored", "F32"))
    (gpt2_weights if c["model_type"] == "gpt2" else llama_weights)(c, weights)
    batch = make_batch(case, Lcg(case["seed"] + 1000))
    tokens = dict(tokens=batch["rows"])
    if case.get("ignored"):
        tokens["targets"] = batch["targets"].tolist()
    if case.get("documents"):
        tokens["starts"] = batch["starts"].tolist()
    expected = expectations(case, weights.tensors, batch)
    write(folder / "config.json", c)
    write(folder / "weights.json",
          dict(seed=weights.seed, stored=weights.stored, tensors=weights.recipe))
    write(folder / "tokens.json", tokens)
    write(folder / "expected.json", expected)
    print(f"{folder.name}: loss {expected['loss']:.6f}, z-loss {expected['z_loss']:.6f}, norm "
          f"{expected['grad_norm_total']:.4f}, {expected['target_tokens']} targets")


# --- What there is ------------------------------------------------------------------------------


def main():
    output, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    catalogue = json.loads((pathlib.Path(__file__).parent / "golden_cases.json").read_text())
    for case in catalogue["models"]:
        if not wanted or case["name"] in wanted:
            make(output / "golden" / case["name"], case)
    tables = []
    for case in catalogue["rotary"]:
        frequencies, magnitude = rotary_frequencies(case["config"], case["sequence_length"])
        tables.append(dict(case, frequencies=[float(f"{f:.15g}") for f in frequencies],
                           magnitude=magnitude))
    write(output / "rotary.json", dict(tables=tables))


if __name__ == "__main__":
    main()
