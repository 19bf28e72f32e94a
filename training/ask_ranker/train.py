"""Fine-tunes MiniLM's layers to rank descriptions of queries for a question; see README.md. Needs a GPU."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLS, SEP, MASK = 101, 102, 103
WIDTH, HEADS, INNER, DEPTH = 384, 12, 1536, 6
DROP, HIDDEN, BLIND = 0.1, 0.06, 0.3  # of activations, of words, of batches without today's rank
_NAMES = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "o": "attention.output.dense", "ln1": "attention.output.LayerNorm", "i": "intermediate.dense",
    "f": "output.dense", "ln2": "output.LayerNorm",
}  # fmt: skip


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH, eps=1e-12), nn.LayerNorm(WIDTH, eps=1e-12)
        self.i, self.f = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, length, _ = x.shape

        def heads(each: Tensor) -> Tensor:
            return each.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)), attn_mask=mask)
        x = self.ln1(x + self.o(mixed.transpose(1, 2).reshape(rows, length, WIDTH)))
        return self.ln2(x + self.f(F.gelu(self.i(x))))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.pos, self.typ = nn.Embedding(30522, WIDTH), nn.Embedding(512, WIDTH), nn.Embedding(2, WIDTH)
        self.ln = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))


def loaded(path: Path) -> Bert:
    stored, model = dict(np.load(path).items()), Bert()
    tables = {
        "word": "word_embeddings",
        "pos": "position_embeddings",
        "typ": "token_type_embeddings",
        "ln": "LayerNorm",
    }
    state = {}
    for name in model.state_dict():
        parts = name.split(".")
        key = f"embeddings.{tables[parts[0]]}.{parts[1]}" if parts[0] in tables else ""
        key = key or f"encoder.layer.{parts[1]}.{_NAMES[parts[2]]}.{parts[3]}"
        if key in stored:
            state[name] = torch.from_numpy(stored[key].astype(np.float32))
        else:
            scale = stored[f"{key}_s"].astype(np.float32)[:, None]
            state[name] = torch.from_numpy(stored[f"{key}_q"].astype(np.float32) * scale)
    model.load_state_dict(state)
    return model


class Ranker(nn.Module):
    """`alpha` weighs today's rank, to which the score is added while training."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self.drop, self.out = nn.Dropout(0.1), nn.Linear(2 * WIDTH, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.alpha = nn.Parameter(torch.tensor(1.0))
        for frozen in (bert.word.weight, bert.pos.weight):
            frozen.requires_grad = False

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        bert = self.bert
        x = bert.ln(bert.word(ids) + bert.pos.weight[None, : ids.shape[1]] + bert.typ(types))
        x = F.dropout(x, DROP, self.training)
        for layer in bert.layers:
            x = F.dropout(layer(x, mask[:, None, None, :].bool()), DROP / 2, self.training)
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.out(self.drop(torch.cat([x[:, 0], mean], -1))).squeeze(-1)


class Lists:
    """Questions and candidates as `bench/ask_training.py --lists` writes them: flat tokens, with where each starts."""

    def __init__(self, path: Path) -> None:
        stored = np.load(path)
        self.flat = torch.from_numpy(stored["flat"].astype(np.int64)).to(DEVICE)
        self.q_start, self.q_len = stored["qstart"], stored["qlen"]
        self.c_start, self.c_len = stored["cstart"], stored["clen"]
        self.start, self.len = stored["lstart"], stored["llen"]
        self.right, self.base, self.fold, self.plain = (stored[name] for name in ("right", "base", "fold", "plain"))

    def rows_of(self, question: int) -> np.ndarray:
        return np.arange(self.start[question], self.start[question] + self.len[question])

    def sample(self, question: int, most: int, rng: np.random.Generator) -> np.ndarray:
        """Some candidates, with right ones; of the wrong ones rather those that today's rank takes for right."""
        rows = self.rows_of(question)
        if len(rows) <= most:
            return rows
        good, bad = rows[self.right[rows]], rows[~self.right[rows]]
        good = good if len(good) <= most // 2 else rng.choice(good, most // 2, replace=False)
        weight = np.exp(np.clip(self.base[bad].astype(np.float64) - self.base[bad].max(), -6, 0)) + 0.02
        bad = rng.choice(bad, min(len(bad), most - len(good)), replace=False, p=weight / weight.sum())
        return np.concatenate([good, bad])

    def batch(
        self, questions: list[int], rows: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, Tensor, Tensor, Tensor]:
        """Rows and the question of each, ids, types and mask."""
        group = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        row, own = np.concatenate(rows), np.array(questions)[group]
        asked, told = self.q_len[own][:, None], self.c_len[row][:, None]
        length = (int((asked + told).max()) + 3 + 7) // 8 * 8
        at = np.arange(length)[None]
        first = (at >= 1) & (at < 1 + asked)
        second = (at >= 2 + asked) & (at < 2 + asked + told)
        used = at < asked + told + 3
        index = np.where(first, self.q_start[own][:, None] + at - 1, 0)
        index = np.where(second, self.c_start[row][:, None] + at - 2 - asked, index)
        special = np.where(at == 0, CLS, np.where(used & ~first & ~second, SEP, 0))

        def on(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(DEVICE)

        ids = torch.where(on(first | second), self.flat[on(index)], on(special))
        return row, group, ids, on((at >= 2 + asked) & used).long(), on(used).float()


def loss_of(scores: Tensor, right: Tensor, group: np.ndarray, count: int) -> Tensor:
    """Listwise: the probability of all right candidates of a question together."""
    g = torch.from_numpy(group).to(DEVICE)
    top = torch.full((count,), -1e9, device=DEVICE).scatter_reduce(0, g, scores.detach(), "amax")
    shares = (scores - top[g]).exp()
    total = torch.zeros(count, device=DEVICE).index_add(0, g, shares)
    good = torch.zeros(count, device=DEVICE).index_add(0, g, shares * right)
    return -((good + 1e-9) / total).log().mean()


def trained(lists: Lists, questions: np.ndarray, options: argparse.Namespace) -> Ranker:
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    model = Ranker(loaded(options.base)).to(DEVICE)
    mixed = [q for q in questions if lists.right[lists.rows_of(q)].any() and not lists.right[lists.rows_of(q)].all()]
    usable = np.array(mixed)
    steps = options.epochs * math.ceil(len(usable) / options.batch)
    body = [p for name, p in model.named_parameters() if name.startswith("bert.") and p.requires_grad]
    head = [*model.out.parameters(), model.alpha]
    optimizer = torch.optim.AdamW(
        [
            {"params": body, "lr": options.rate, "weight_decay": 0.01},
            {"params": head, "lr": 10 * options.rate, "weight_decay": 0},
        ]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, step / (0.08 * steps)) * max(0.02, 1 - step / steps)
    )
    base = torch.from_numpy(lists.base).to(DEVICE)
    right = torch.from_numpy(lists.right.astype(np.float32)).to(DEVICE)
    for epoch in range(options.epochs):
        model.train()
        rng.shuffle(usable)
        total, began = 0.0, time.time()
        for start in range(0, len(usable), options.batch):
            chosen = usable[start : start + options.batch].tolist()
            sampled = [lists.sample(q, options.most, rng) for q in chosen]
            row, group, ids, types, mask = lists.batch(chosen, sampled)
            hide = (torch.rand_like(mask) < HIDDEN) & (ids != CLS) & (ids != SEP) & (mask > 0)
            with torch.autocast(DEVICE, torch.bfloat16):
                compared = model(torch.where(hide, torch.full_like(ids, MASK), ids), types, mask)
            rows = torch.from_numpy(row).to(DEVICE)
            ranked = base[rows] * (model.alpha if torch.rand(()) > BLIND else 0.0)
            loss = loss_of(compared.float() + ranked, right[rows], group, len(chosen))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(json.dumps({"epoch": epoch + 1, "loss": round(total / len(usable), 3), "s": round(time.time() - began)}))
    return model


@torch.no_grad()
def report(model: Ranker, lists: Lists, questions: np.ndarray) -> dict[str, float]:
    """On databases that it has not seen: how often the first candidate is right, by rank alone and with it."""
    model.eval()
    found: dict[str, list[bool]] = {}
    for question in questions.tolist():
        rows, kind = lists.rows_of(question), "plain" if lists.plain[question] else "synonyms"
        right = lists.right[rows]
        compared = np.zeros(len(rows), np.float32)
        if len(rows):
            _, _, ids, types, mask = lists.batch([question], [rows])
            with torch.autocast(DEVICE, torch.bfloat16):
                compared = model(ids, types, mask).float().cpu().numpy()
        both = float(model.alpha) * lists.base[rows] + compared
        for name, scores in (("rank", lists.base[rows]), ("compared", both)):
            found.setdefault(f"{kind} {name}", []).append(bool(len(rows)) and bool(right[scores.argmax()]))
    return {name: round(100 * float(np.mean(values)), 1) for name, values in found.items()}


def int8(model: Ranker) -> dict[str, np.ndarray]:
    """Without what was not trained; large matrices as int8 with a scale per row."""
    made: dict[str, np.ndarray] = {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().float().cpu().numpy()
        if name in ("bert.word.weight", "bert.pos.weight"):
            continue
        if array.ndim == 2 and array.size > 10_000:
            scale = np.abs(array).max(1, keepdims=True) / 127 + 1e-12
            made[f"{name}_q"], made[f"{name}_s"] = np.round(array / scale).astype(np.int8), scale.astype(np.float32)
        else:
            made[name] = array
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rate", type=float, default=6e-5)
    parser.add_argument("--batch", type=int, default=16, help="questions")
    parser.add_argument("--most", type=int, default=20, help="candidates of a question")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lists = Lists(options.data)
    every = np.arange(len(lists.start))
    for fold in range(4):
        model = trained(lists, every[lists.fold != fold], options)
        print(json.dumps({"fold": fold, **report(model, lists, every[lists.fold == fold])}), flush=True)
        np.savez(options.out / f"fold{fold}.npz", **int8(model))


if __name__ == "__main__":
    main()
