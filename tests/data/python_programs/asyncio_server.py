"""asyncio: a server and its clients in one loop, tasks, queues, timeouts, async generators, and an executor's threads."""

import asyncio
import contextlib
import json

import common


async def lines(reader):
    while True:
        line = await reader.readline()
        if not line:
            return
        yield line


@contextlib.asynccontextmanager
async def limited(limit):
    async with limit:
        yield


def encode(value):
    return json.dumps(value, default=lambda item: sorted(item)).encode() + b"\n"


class Server:
    def __init__(self):
        self.limit, self.queue = asyncio.Semaphore(4), asyncio.Queue(10)

    async def serve(self, reader, writer):
        async for line in lines(reader):
            async with limited(self.limit):
                value = json.loads(line)
                await self.queue.put(value)
                writer.write(encode({"sum": sum(value), "set": set(value)}))
                await writer.drain()
        writer.close()

    async def consume(self):
        while True:
            value = await self.queue.get()
            await asyncio.get_running_loop().run_in_executor(None, sorted, value, )
            self.queue.task_done()


async def client(port):
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for count in range(20):
            writer.write(encode(list(range(count))))
            await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(5)))


async def main():
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    tasks = [asyncio.create_task(server.consume()), *(asyncio.create_task(client(port)) for _ in range(3))]
    common.ready()
    await asyncio.gather(*tasks)


asyncio.run(main())
