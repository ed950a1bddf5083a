"""Draws the pictures in samples/: a clean page, a photographed sign, and a label that is upside down.

    python reference/make_samples.py          (needs the DejaVu fonts: apt-get install fonts-dejavu-core)
"""

import pathlib

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "samples"
FONTS = "/usr/share/fonts/truetype/dejavu/"


def font(name, size):
    return ImageFont.truetype(FONTS + name + ".ttf", size)


def page():
    image = Image.new("RGB", (800, 520), "white")
    draw = ImageDraw.Draw(image)
    draw.text((40, 30), "Delivery note 4711", "black", font("DejaVuSans-Bold", 38))
    draw.text((40, 120), "Copper screws 4 x 30", "#222222", font("DejaVuSansMono", 30))
    draw.text((40, 180), "White cable 25 m", "#222222", font("DejaVuSansMono", 30))
    draw.line((40, 250, 760, 250), "gray", 2)
    draw.text((40, 280), "Total", "black", font("DejaVuSerif-Bold", 34))
    draw.text((600, 280), "318.40", "black", font("DejaVuSansMono-Bold", 34))
    draw.text((40, 420), "Please keep this note.", "#555555", font("DejaVuSansMono", 28))
    image.save(SAMPLES / "page.png", optimize=True)


def sign():
    """White letters on green, turned by perspective, on a noisy wall with uneven light."""
    board = Image.new("RGB", (620, 260), "#1f6b3a")
    draw = ImageDraw.Draw(board)
    draw.rectangle((8, 8, 611, 251), outline="white", width=4)
    draw.text((60, 36), "BOTANIC GARDEN", "white", font("DejaVuSans-Bold", 52))
    draw.text((60, 122), "OPEN ALL YEAR", "white", font("DejaVuSans-Bold", 40))
    draw.text((60, 188), "GATE SEVEN", "#ffe27a", font("DejaVuSans-Bold", 36))
    height, width = 640, 900
    y, x = np.mgrid[0:height, 0:width]
    wall = np.stack([120 + 0.06 * x, 130 + 0.05 * x + 0.03 * y, 140 + 0.05 * y], -1)
    corners = np.float32([[0, 0], [620, 0], [620, 260], [0, 260]])
    seen = np.float32([[130, 210], [760, 110], [800, 400], [150, 450]])
    matrix = cv2.getPerspectiveTransform(corners, seen)
    warped = cv2.warpPerspective(np.asarray(board).astype(np.float64), matrix, (width, height), flags=cv2.INTER_AREA)
    mask = cv2.warpPerspective(np.ones((260, 620)), matrix, (width, height))[..., None]
    image = wall * (1 - mask) + warped * mask
    image *= (0.75 + 0.35 * x / width)[..., None]
    image = cv2.GaussianBlur(image, (0, 0), 0.8) + np.random.default_rng(3).normal(0, 6, image.shape)
    Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(SAMPLES / "sign.jpg", quality=80)


def label():
    """Lies upside down and a little askew; the orientation model has to turn the lines."""
    image = Image.new("RGB", (560, 200), "#f4efe2")
    draw = ImageDraw.Draw(image)
    draw.text((40, 30), "FRAGILE GLASS", "#a01818", font("DejaVuSans-Bold", 44))
    draw.text((40, 110), "This side up, do not stack", "black", font("DejaVuSans", 30))
    image.rotate(176, expand=True, fillcolor="#f4efe2", resample=Image.BICUBIC).save(SAMPLES / "label.png", optimize=True)


if __name__ == "__main__":
    SAMPLES.mkdir(exist_ok=True)
    page()
    sign()
    label()
