"""A client of TorchServe with requests and grpcio, as people have them. Prints what it observed as JSON.

    python3 client.py --inference URL --management URL --metrics URL --grpc-inference HOST:PORT --grpc-management HOST:PORT \
        --protos FOLDER

The server has client-1.0.mar and client-2.0.mar in its model store and no model loaded. `--protos` holds inference.proto and
management.proto; stubs are made from them by grpcio-tools. Nothing in here knows which server it talks to.
"""
import argparse
import importlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path

import grpc
import requests
from grpc_tools import protoc

observed = {}


def stubs(protos):
    """Generates and imports the Python modules of the services."""
    folder = tempfile.TemporaryDirectory()
    well_known = str(Path(importlib.import_module("grpc_tools").__file__).parent / "_proto")
    files = ["inference.proto", "management.proto"] + [str(p.relative_to(protos)) for p in Path(protos).glob("google/rpc/status.proto")]
    words = ["protoc", f"-I{protos}", f"-I{well_known}", f"--python_out={folder.name}", f"--grpc_python_out={folder.name}"]
    if protoc.main(words + files) != 0:
        raise SystemExit("grpcio-tools could not make stubs")
    sys.path.insert(0, folder.name)
    import google

    google.__path__.append(f"{folder.name}/google")
    return folder, *(importlib.import_module(name) for name in ("inference_pb2", "inference_pb2_grpc", "management_pb2", "management_pb2_grpc"))


def note(name, response, body=None):
    """Keeps what a client looks at: status, type, length rules, its own headers, body."""
    content = response.content
    if body is None:
        try:
            body = response.json()
        except ValueError:
            try:
                body = content.decode()
            except UnicodeDecodeError:
                body = content.hex()
    if response.status_code >= 400 and isinstance(body, dict) and {"code", "type", "message"} <= body.keys():
        # What the message says is for people.
        body = {"code": body["code"], "type": body["type"], "message": "some" if body["message"] else "none"}
    observed[name] = {
        "status": response.status_code,
        "type": response.headers.get("content-type"),
        "version": response.headers.get("x-model-version"),
        "request id": "x-request-id" in response.headers,
        "body": body,
    }
    return response


def note_call(name, call, read):
    try:
        observed[name] = {"code": "OK", "answer": read(call())}
    except grpc.RpcError as error:
        observed[name] = {"code": error.code().name}


described = ("modelName", "modelVersion", "modelUrl", "minWorkers", "maxWorkers", "batchSize", "maxBatchDelay", "responseTimeout", "loadedAtStartup")


def description(models):
    return [{**{key: model.get(key) for key in described}, "workers": [worker["status"] for worker in model["workers"]]} for model in models]


def rest(inference, management, metrics):
    session = requests.Session()
    note("ping", session.get(f"{inference}/ping"))
    note("ping of nothing", session.get(f"{inference}/pong"))
    answer = session.options(inference)
    note("description", answer, sorted(answer.json())[:3])
    models = f"{management}/models"
    note("list nothing", session.get(models))
    note("register", session.post(models, params={"url": "client-1.0.mar", "initial_workers": 1, "synchronous": "true", "batch_size": 2, "max_batch_delay": 5}))
    note("register again", session.post(models, params={"url": "client-1.0.mar"}))
    note("register what is not there", session.post(models, params={"url": "none.mar"}))
    note("register without url", session.post(models))
    note("register 2.0", session.post(models, params={"url": "client-2.0.mar", "initial_workers": 1, "synchronous": "true"}))
    note("list", session.get(models))
    answer = session.get(f"{models}/client")
    note("describe", answer, description(answer.json()))
    observed["describe keys"] = sorted(answer.json()[0])
    answer = session.get(f"{models}/client/all")
    note("describe all", answer, description(sorted(answer.json(), key=lambda it: it["modelVersion"])))
    note("describe what is not there", session.get(f"{models}/none"))
    note("describe a version that is not there", session.get(f"{models}/client/9"))

    predict = f"{inference}/predictions/client"
    note("predict json", session.post(predict, json={"values": [1, 2, 3], "name": "ä"}))
    note("predict text", session.post(predict, data="hällo".encode(), headers={"content-type": "text/plain"}))
    note("predict binary", session.post(predict, data=bytes(range(256)), headers={"content-type": "application/octet-stream"}))
    note("predict without type", session.post(predict, data=b"\xff\x00"))
    note("predict put", session.put(predict, data=b"12345"))
    note("predict multipart file", session.post(predict, files={"data": ("a.bin", b"\x00\x01\x02")}))
    note("predict multipart", session.post(predict, files={"data": ("a.bin", b"\x00\x01\x02"), "mask": ("b.bin", b"1234")}, data={"label": "x"}))
    note("predict form", session.post(predict, data={"data": "abc", "label": "xy"}))
    note("predict bytes back", session.post(predict, data=b"bytes"))
    note("predict version", session.post(f"{predict}/2.0", data=b"1"))
    note("predict version that is not there", session.post(f"{predict}/9", data=b"1"))
    note("predict model that is not there", session.post(f"{inference}/predictions/none", data=b"1"))
    note("predict refused by the handler", session.post(predict, data=b"refuse"))
    note("predict failed by the handler", session.post(predict, data=b"fail"))
    note("predict after that", session.post(predict, data=b"1"))
    note("predict that kills the worker", session.post(predict, data=b"die"))
    note("predict after its death", session.post(predict, data=b"1"))
    note("invocations", session.post(f"{inference}/invocations", data=b"12"))
    note("models invoke", session.post(f"{inference}/models/client/invoke", data=b"12"))
    note("v1 predict", session.post(f"{inference}/v1/models/client:predict", data=b"12"))
    with session.post(predict, data=b"", headers={"x-stream": "yes"}, stream=True) as answer:
        text = b"".join(answer.iter_content(None)).decode()
        observed["predict stream"] = {"status": answer.status_code, "chunked": answer.headers.get("transfer-encoding"), "body": text}

    note("scale up", session.put(f"{models}/client", params={"min_worker": 2, "synchronous": "true"}))
    answer = session.get(f"{models}/client")
    note("describe scaled", answer, description(answer.json()))
    note("scale asynchronously", session.put(f"{models}/client", params={"min_worker": 1, "max_worker": 1}))
    note("scale wrongly", session.put(f"{models}/client", params={"min_worker": 2, "max_worker": 1}))
    note("scale what is not there", session.put(f"{models}/none", params={"min_worker": 1}))
    note("set default", session.put(f"{models}/client/2.0/set-default"))
    note("set default to what is not there", session.put(f"{models}/client/9/set-default"))
    note("predict the new default", session.post(predict, data=b"1"))
    note("unregister the default", session.delete(f"{models}/client/2.0"))
    note("unregister 1.0", session.delete(f"{models}/client/1.0"))
    note("wrong method", session.delete(f"{models}"))

    answer = session.get(f"{metrics}/metrics")
    names = set(re.findall(r"^([A-Za-z_]\w*)[{ ]", answer.text, re.M))
    wanted = ["Requests2XX", "Requests4XX", "Requests5XX", "ts_inference_requests_total", "ts_inference_latency_microseconds", "ts_queue_latency_microseconds"]
    note("metrics", answer, {name: name in names or f"{name}_total" in names for name in wanted})
    answer = session.get(f"{metrics}/metrics", params={"name[]": "ts_inference_requests_total"})
    samples = re.findall(r"^(\w+)\{([^}]*)\} (\S+)", answer.text, re.M)
    labels = lambda text: sorted(pair for pair in re.findall(r'(\w+)="([^"]*)"', text) if pair[0] != "hostname")
    note("metrics by name", answer, sorted([name, labels(text), float(value)] for name, text, value in samples))
    note("unregister", session.delete(f"{models}/client"))
    note("unregister again", session.delete(f"{models}/client"))


def rpc(inference, management, pb, pb_grpc, mpb, mpb_grpc):
    from google.protobuf import empty_pb2

    models = mpb_grpc.ManagementAPIsServiceStub(grpc.insecure_channel(management))
    predictions = pb_grpc.InferenceAPIsServiceStub(grpc.insecure_channel(inference))
    text = lambda answer: answer.msg.strip()
    request = lambda **more: pb.PredictionsRequest(model_name="client", **more)
    note_call("grpc ping", lambda: predictions.Ping(empty_pb2.Empty()), lambda it: json.loads(it.health))
    note_call("grpc register", lambda: models.RegisterModel(mpb.RegisterModelRequest(url="client-1.0.mar", initial_workers=1, synchronous=True)), text)
    note_call("grpc register again", lambda: models.RegisterModel(mpb.RegisterModelRequest(url="client-1.0.mar")), text)
    note_call("grpc register 2.0", lambda: models.RegisterModel(mpb.RegisterModelRequest(url="client-2.0.mar", initial_workers=1, synchronous=True)), text)
    note_call("grpc list", lambda: models.ListModels(mpb.ListModelsRequest(limit=10)), lambda it: json.loads(it.msg))
    note_call("grpc describe", lambda: models.DescribeModel(mpb.DescribeModelRequest(model_name="client")), lambda it: description(json.loads(it.msg)))
    note_call("grpc describe what is not there", lambda: models.DescribeModel(mpb.DescribeModelRequest(model_name="none")), text)
    read = lambda answer: answer.prediction.decode()
    note_call("grpc predict", lambda: predictions.Predictions(request(input={"data": b"123"})), lambda it: json.loads(read(it)))
    note_call("grpc predict body", lambda: predictions.Predictions(request(input={"body": b"1234"})), lambda it: json.loads(read(it)))
    note_call("grpc predict parts", lambda: predictions.Predictions(request(input={"data": b"123", "mask": b"1"})), lambda it: json.loads(read(it)))
    note_call("grpc predict version", lambda: predictions.Predictions(request(model_version="2.0", input={"data": b"1"})), lambda it: json.loads(read(it)))
    note_call("grpc predict version that is not there", lambda: predictions.Predictions(request(model_version="9", input={"data": b"1"})), read)
    note_call("grpc predict model that is not there", lambda: predictions.Predictions(pb.PredictionsRequest(model_name="none", input={"data": b"1"})), read)
    note_call("grpc predict without a model", lambda: predictions.Predictions(pb.PredictionsRequest(input={"data": b"1"})), read)
    note_call("grpc predict refused by the handler", lambda: predictions.Predictions(request(input={"data": b"refuse"})), read)
    note_call("grpc predict failed by the handler", lambda: predictions.Predictions(request(input={"data": b"fail"})), read)
    note_call("grpc stream", lambda: predictions.StreamPredictions(request(input={"mode": b"stream"})), lambda it: [read(part) for part in it])
    note_call("grpc scale", lambda: models.ScaleWorker(mpb.ScaleWorkerRequest(model_name="client", min_worker=2, synchronous=True)), text)
    note_call("grpc set default", lambda: models.SetDefault(mpb.SetDefaultRequest(model_name="client", model_version="2.0")), text)
    note_call("grpc unregister", lambda: models.UnregisterModel(mpb.UnregisterModelRequest(model_name="client", model_version="1.0")), text)
    note_call("grpc unregister the last", lambda: models.UnregisterModel(mpb.UnregisterModelRequest(model_name="client")), text)


def wait_for(url, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            return requests.get(url, timeout=5)
        except requests.RequestException:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("inference", "management", "metrics", "grpc-inference", "grpc-management", "protos"):
        arguments.add_argument(f"--{name}", required=True)
    given = arguments.parse_args()
    folder, *modules = stubs(given.protos)
    with folder:
        wait_for(f"{given.inference}/ping")
        rest(given.inference, given.management, given.metrics)
        rpc(given.grpc_inference, given.grpc_management, *modules)
    json.dump(observed, sys.stdout, indent=1, sort_keys=False, ensure_ascii=False)
    print()


main()
