"""Flask: a threaded server under load by clients in threads of the same process."""

import http.client
import json
import logging
import threading

import common
from flask import Flask, jsonify, render_template_string, request
from werkzeug.serving import make_server

app = Flask(__name__)
PAGE = "<ul>{% for item in items|sort %}<li>{{ item|upper }}</li>{% endfor %}</ul>"


@app.before_request
def before():
    request.items = [f"item {index}" for index in range(20)]


@app.route("/page")
def page():
    return render_template_string(PAGE, items=request.items)


@app.route("/json", methods=["POST"])
def echo():
    return jsonify(sorted(request.get_json(), key=lambda item: -item))


def client(port):
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/page")
        connection.getresponse().read()
        connection.close()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/json", json.dumps(list(range(50))), {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()


def main():
    logging.disable()
    server = make_server("127.0.0.1", 0, app, threaded=True)
    for _ in range(2):
        threading.Thread(target=client, args=(server.server_port,), daemon=True).start()
    common.ready()
    server.serve_forever()


main()
