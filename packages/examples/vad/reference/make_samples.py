"""Speaks the recordings in samples/ with espeak-ng, 16 kHz mono 16 bit, over a little noise.

    apt-get install espeak-ng && python reference/make_samples.py
"""

import pathlib
import subprocess
import tempfile
import wave

import numpy as np

SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "samples"
RATE = 16000


def speak(text, voice, speed):
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/speech.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-w", file, text], check=True)
        with wave.open(file) as wav:
            rate = wav.getframerate()
            samples = np.frombuffer(wav.readframes(wav.getnframes()), np.int16) / 32768
    spectrum = np.fft.rfft(samples)
    count = int(len(samples) * RATE / rate)
    return np.fft.irfft(spectrum[: count // 2 + 1], count) * count / len(samples)


def record(name, parts, seed):
    """Parts are seconds of silence or (text, voice, speed)."""
    pieces = [np.zeros(int(part * RATE)) if isinstance(part, float) else speak(*part) for part in parts]
    samples = np.concatenate(pieces)
    samples = 0.6 * samples / (np.abs(samples).max() or 1) + np.random.default_rng(seed).normal(0, 0.0015, len(samples))
    with wave.open(str(SAMPLES / name), "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(RATE)
        wav.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    print(name, f"{len(samples) / RATE:.2f} s")


if __name__ == "__main__":
    SAMPLES.mkdir(exist_ok=True)
    record("announcement.wav", [0.6, ("The train to Dover", "en-gb", 150), 1.0, ("leaves from platform three", "en-gb", 150), 0.7], 1)
    record("answer.wav", [0.3, ("Yes.", "en-us", 140), 0.5, ("Tomorrow at nine.", "en-us", 140), 0.25], 2)
    record("silence.wav", [1.0], 3)
