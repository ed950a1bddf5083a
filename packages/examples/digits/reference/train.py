"""Trains the digit network on scikit-learn's digits data and writes model/digits.onnx, samples/ and reference/fixtures.json.

    pip install -r reference/requirements.txt
    python reference/train.py

Plain numpy with one thread and fixed seeds, so that two runs on one machine write the same file. The test images are
never trained on. Accuracy is measured twice: on the 8x8 test images as they are, and on the same images enlarged to
small pictures that go through the handler's own preparation (`prepare` below is handler.ts in Python).
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent
EPOCHS, BATCH, RATE, DECAY = 60, 64, 2e-3, 1e-4


# ---- the network: conv 16, conv 32, max-pool, dense 64, dense 10 ----


def columns(x):
    """[N,C,H,W] -> [N,H,W,C*9] patches of a 3x3 convolution with zero padding 1."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # N,C,H,W,3,3
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def columns_back(grad, c):
    n, h, w, _ = grad.shape
    grad = grad.reshape(n, h, w, c, 3, 3)
    padded = np.zeros((n, c, h + 2, w + 2), np.float32)
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + h, j : j + w] += grad[:, :, :, :, i, j].transpose(0, 3, 1, 2)
    return padded[:, :, 1:-1, 1:-1]


def initial(rng):
    he = lambda out, inp: (rng.standard_normal((out, inp)) * np.sqrt(2 / inp)).astype(np.float32)
    weights = {"conv1": he(16, 9), "conv2": he(32, 144), "fc1": he(64, 512), "fc2": he(10, 64)}
    biases = {name + ".bias": np.zeros(w.shape[0], np.float32) for name, w in weights.items()}
    return weights | biases


def step(p, x, y):
    """Loss gradient of one batch; x is [N,1,8,8] in 0..1."""
    c1 = columns(x)
    a1 = np.maximum(c1 @ p["conv1"].T + p["conv1.bias"], 0).transpose(0, 3, 1, 2)
    c2 = columns(a1)
    a2 = np.maximum(c2 @ p["conv2"].T + p["conv2.bias"], 0).transpose(0, 3, 1, 2)
    blocks = a2.reshape(len(x), 32, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(len(x), 32, 4, 4, 4)
    winner = blocks.argmax(-1)
    flat = np.take_along_axis(blocks, winner[..., None], -1)[..., 0].reshape(len(x), 512)
    h = np.maximum(flat @ p["fc1"].T + p["fc1.bias"], 0)
    logits = h @ p["fc2"].T + p["fc2.bias"]
    prob = np.exp(logits - logits.max(1, keepdims=True))
    prob /= prob.sum(1, keepdims=True)
    g = prob.copy()
    g[np.arange(len(x)), y] -= 1
    g /= len(x)
    grads = {"fc2": g.T @ h, "fc2.bias": g.sum(0)}
    g = (g @ p["fc2"]) * (h > 0)
    grads |= {"fc1": g.T @ flat, "fc1.bias": g.sum(0)}
    g = (g @ p["fc1"]).reshape(len(x), 32, 4, 4)
    spread = np.zeros_like(blocks)
    np.put_along_axis(spread, winner[..., None], g[..., None], -1)
    g = spread.reshape(len(x), 32, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(a2.shape) * (a2 > 0)
    g = g.transpose(0, 2, 3, 1)
    grads |= {"conv2": np.tensordot(g, c2, ((0, 1, 2), (0, 1, 2))), "conv2.bias": g.sum((0, 1, 2))}
    g = columns_back(g @ p["conv2"], 16) * (a1 > 0)
    g = g.transpose(0, 2, 3, 1)
    grads |= {"conv1": np.tensordot(g, c1, ((0, 1, 2), (0, 1, 2))), "conv1.bias": g.sum((0, 1, 2))}
    return grads


def distort(image, rng):
    """A little rotation, scaling and shift, since pictures are never framed as the data set is."""
    angle = np.deg2rad(rng.uniform(-12, 12))
    scale = rng.uniform(0.85, 1.15, 2)
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * scale
    centre = np.array([3.5, 3.5])
    offset = centre - matrix @ (centre + rng.uniform(-0.9, 0.9, 2))
    return np.clip(ndimage.affine_transform(image, matrix, offset, order=1), 0, 16)


def train(images, labels):
    rng = np.random.default_rng(7)
    p = initial(rng)
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(x) for k, x in p.items()}
    t = 0
    for epoch in range(EPOCHS):
        seen = np.stack([image if rng.random() < 0.3 else distort(image, rng) for image in images]).astype(np.float32)
        order = rng.permutation(len(images))
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            grads = step(p, seen[index][:, None] / 16, labels[index])
            t += 1
            for k in p:
                m[k] = 0.9 * m[k] + 0.1 * grads[k]
                v[k] = 0.999 * v[k] + 0.001 * grads[k] ** 2
                update = (m[k] / (1 - 0.9**t)) / (np.sqrt(v[k] / (1 - 0.999**t)) + 1e-8)
                p[k] = (p[k] - rate * (update + DECAY * p[k])).astype(np.float32)
    return p


def to_onnx(p):
    value = lambda name, array: numpy_helper.from_array(np.ascontiguousarray(array, dtype=np.float32), name)
    weights = [
        value("scale", np.array(1 / 16)),
        value("conv1.weight", p["conv1"].reshape(16, 1, 3, 3)),
        value("conv2.weight", p["conv2"].reshape(32, 16, 3, 3)),
        value("fc1.weight", p["fc1"]),
        value("fc2.weight", p["fc2"]),
        *(value(k, p[k]) for k in p if k.endswith(".bias")),
    ]
    node = helper.make_node
    nodes = [
        node("Mul", ["image", "scale"], ["scaled"]),
        node("Conv", ["scaled", "conv1.weight", "conv1.bias"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c2"], ["r2"]),
        node("MaxPool", ["r2"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["pooled"], ["flat"], axis=1),
        node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        node("Relu", ["h"], ["r3"]),
        node("Gemm", ["r3", "fc2.weight", "fc2.bias"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="onnxserve-digits")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


# ---- the handler's preparation of a picture, and pictures to try it on ----


def prepare(grey):
    """Grey picture [H,W] 0..255 -> [8,8] 0..16: ink found, cropped, centred in a square, averaged over 8x8 cells."""
    border = np.concatenate([grey[0], grey[-1], grey[1:-1, 0], grey[1:-1, -1]])
    dark_on_light = np.median(border) > 127.5
    ink = (255.0 - grey if dark_on_light else grey.astype(np.float64))
    peak = ink.max()
    base = 255 - np.median(border) if dark_on_light else np.median(border)
    ink = np.clip((ink - base) / max(peak - base, 1), 0, 1)
    rows, cols = np.where(ink.max(1) > 0.25)[0], np.where(ink.max(0) > 0.25)[0]
    ink = ink[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    height, width = ink.shape
    side = max(height, width)
    return 16 * cover(height, side) @ ink @ cover(width, side).T


def cover(length, side):
    """[8,length]: how much of each of 8 cells of a square of `side` pixels each of `length` centred pixels covers."""
    start = (side - length) / 2 + np.arange(length)
    cell = side / 8
    edges = np.arange(8)[:, None] * cell
    return np.clip(np.minimum(start + 1, edges + cell) - np.maximum(start, edges), 0, None) / cell


def picture(digit, side, margin, inverted):
    """A test digit enlarged to a picture: black ink on white unless inverted."""
    ink = Image.fromarray(np.round(digit * 255 / 16).astype(np.uint8)).resize((side, side), Image.BICUBIC)
    canvas = Image.new("L", (side + 2 * margin, side + 2 * margin), 0)
    canvas.paste(ink, (margin, margin))
    return canvas if inverted else Image.eval(canvas, lambda value: 255 - value)


def main():
    data = load_digits()
    images, labels = data.images.astype(np.float32), data.target
    x, test_x, y, test_y = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)
    model = to_onnx(train(x, y))
    (EXAMPLE / "model").mkdir(exist_ok=True)
    onnx.save(model, EXAMPLE / "model" / "digits.onnx")

    session = onnxruntime.InferenceSession(str(EXAMPLE / "model" / "digits.onnx"), providers=["CPUExecutionProvider"])
    run = lambda batch: session.run(None, {"image": np.asarray(batch, np.float32).reshape(-1, 1, 8, 8)})[0]
    print(f"accuracy on {len(test_x)} test images: {(run(test_x).argmax(1) == test_y).mean():.4f}")
    prepared = [prepare(np.asarray(picture(image, 64, 8, False))) for image in test_x]
    print(f"accuracy on the same as 80x80 pictures: {(run(prepared).argmax(1) == test_y).mean():.4f}")

    samples = EXAMPLE / "samples"
    samples.mkdir(exist_ok=True)
    fixtures = []
    for label in range(10):
        index = int(np.where(test_y == label)[0][0])
        inverted = label % 2 == 1
        shown = picture(test_x[index], 56 + 8 * label, 4 + 3 * label, inverted)
        name = f"{label}.png"
        shown.save(samples / name, optimize=True)
        tensor = prepare(np.asarray(shown)).astype(np.float32)
        logits = run(tensor)[0].astype(np.float64)
        prob = np.exp(logits - logits.max())
        prob /= prob.sum()
        fixtures.append(
            {
                "file": name,
                "label": str(label),
                "ink": "light-on-dark" if inverted else "dark-on-light",
                "tensor": [round(float(v), 5) for v in tensor.ravel()],
                "probabilities": [round(float(v), 6) for v in prob],
            }
        )
    (HERE / "fixtures.json").write_text("[\n" + ",\n".join(json.dumps(f) for f in fixtures) + "\n]\n")
    wrong = [f["file"] for f in fixtures if int(np.argmax(f["probabilities"])) != int(f["label"])]
    print("samples read wrongly:", wrong or "none")


if __name__ == "__main__":
    main()
