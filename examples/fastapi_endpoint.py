"""Symbolication as an endpoint of your own service.

BINARY=./app uvicorn examples.fastapi_endpoint:app
curl localhost:8000/symbolize -H 'content-type: application/json' -d '{"addresses": ["0x1170"]}'
"""

import os

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import whence

app = FastAPI()
binary = whence.open(os.environ["BINARY"], demangle=True)


class Question(BaseModel):
    addresses: list[str]


@app.post("/symbolize")
def symbolize(question: Question) -> list[list[dict[str, object]]]:
    """For each address its frames, innermost first; [] where nothing is known."""
    try:
        addresses = [int(word, 16) for word in question.addresses]
        chains = binary.lookup_many(addresses)
    except (ValueError, OverflowError) as error:
        raise HTTPException(422, "addresses are hexadecimal numbers of 64 bits") from error
    return [[{"function": f.function, "file": f.file, "line": f.line} for f in chain] for chain in chains]
