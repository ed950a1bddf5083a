"""The model of the client test, for TorchServe. handler.js beside it does the same for onnxserve; one archive holds both."""
import json
import os

from ts.handler_utils.utils import send_intermediate_predict_response
from ts.utils.util import PredictionException


class Client:
    def __init__(self):
        self.initialized = False

    def initialize(self, context):
        self.version = context.manifest["model"]["modelVersion"]
        self.initialized = True

    def handle(self, data, context):
        if context.get_request_header(0, "x-stream") == "yes" or (data[0].get("mode") or b"") == b"stream":
            send_intermediate_predict_response(["one "], context.request_ids, "chunk", 200, context)
            send_intermediate_predict_response(["two "], context.request_ids, "chunk", 200, context)
            return ["three"]
        return [self.answer(row, context, at) for at, row in enumerate(data)]

    def answer(self, row, context, at):
        context.set_response_header(at, "x-model-version", self.version)
        body = row.get("data") if "data" in row else row.get("body")
        others = {name: len(value) for name, value in sorted(row.items()) if name not in ("data", "body")}
        if others:
            return {"fields": others, "data": None if body is None else len(body)}
        if isinstance(body, dict):
            return {"json": body, "sum": sum(body.get("values", []))}
        if isinstance(body, str):
            body = body.encode()
        body = bytes(body or b"")
        if body == b"refuse":
            raise PredictionException("not this one", 422)
        if body == b"fail":
            raise RuntimeError("the handler failed")
        if body == b"die":
            os._exit(3)
        if body == b"bytes":
            context.set_response_content_type(at, "application/x-reversed")
            return bytes(range(256))
        return {"bytes": len(body), "version": self.version}
