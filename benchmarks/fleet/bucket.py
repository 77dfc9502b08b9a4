"""An S3 server (moto) that counts requests by method and key: `python -m benchmarks.fleet.bucket PORT`.

GET /fleet-counts returns [[METHOD, PATH, COUNT], ...] as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


def main() -> None:
    port = int(sys.argv[1])
    os.environ["MOTO_PORT"] = str(port)
    s3 = DomainDispatcherApplication(create_backend_app)
    counts: Counter[tuple[str, str]] = Counter()

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/fleet-counts":
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps([[*key, count] for key, count in counts.copy().items()]).encode()]
        counts[environ["REQUEST_METHOD"], path] += 1
        return s3(environ, start_response)

    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
