"""The asyncio interface: no call blocks the loop, and cancelled operations stop."""

import asyncio
import threading
import time

import numpy as np
import pytest

import holdall
from holdall import aio

WEIGHTS = {f"w{at}": np.full(1000, at, np.float32) for at in range(8)}


@pytest.fixture
def path(tmp_path):
    holdall.save(tmp_path / "m.zt", WEIGHTS, digest="sha256")
    return tmp_path / "m.zt"


def run(of):
    return asyncio.run(asyncio.wait_for(of, 60))


def test_what_there_is(path, tmp_path):
    async def all_of_it():
        async with aio.open(path) as f:
            assert len(f.file) == 8 and (await f.read("w3", slice(2, 4))).tolist() == [3, 3]
            some, rest = await asyncio.gather(f.load(["w1"]), f.load(exclude=["w1"], threads=1))
            assert list(some) == ["w1"] and len(rest) == 7
            out = {"w2": np.empty(1000, np.float32)}
            await f.load_into(out)
            assert out["w2"][0] == 2 and await f.verify()
            arrived = {name: array[0] async for name, array in f.stream(["w5", "w6"])}
            assert arrived == {"w5": 5, "w6": 6}
        assert f.file.closed
        g = await aio.open(path)
        with pytest.raises(KeyError):
            await g.read("none")
        await g.close()
        reports = []
        loaded = await aio.load(path, progress=lambda done, total: reports.append((done, total)))
        assert len(loaded) == 8 and reports[-1][0] == reports[-1][1]
        await aio.save(tmp_path / "copy.zt", loaded)
        assert (await aio.convert(path, tmp_path / "c.safetensors")).tensors == 8
        assert await aio.verify(tmp_path / "copy.zt")
        await aio.load_into(path, out)
        kind = holdall.schema.infer([{"id": 1}])
        assert (await aio.build(tmp_path / "r.mt", ({"id": n} for n in range(10)), kind)).records == ("records", 10)
        async with aio.open(tmp_path / "r.mt") as f:
            assert await f.records("records", lambda r: [x["id"] for x in r.where("id>=8")]) == [8, 9]
        with pytest.raises(holdall.MissingFileError):
            await aio.open(tmp_path / "none")

    run(all_of_it())


class Slow:
    """A source whose reads wait until they may go on."""

    def __init__(self, data):
        self.data, self.size = data, len(data)
        self.may, self.reads, self.waits = threading.Event(), 0, threading.Event()
        self.may.set()

    def get_range(self, start, end):
        self.reads += 1
        self.waits.set()
        assert self.may.wait(30)
        return self.data[start:end]


def test_the_loop_goes_on_meanwhile(path):
    async def meanwhile():
        source = Slow(path.read_bytes())
        async with aio.open(source) as f:
            source.may.clear()
            task = asyncio.create_task(f.load())
            await asyncio.sleep(0.05)
            assert not task.done()
            source.may.set()
            assert len(await task) == 8

    run(meanwhile())


def test_what_is_cancelled_ends(path, tmp_path):
    async def cancelled():
        # A cancelled opening closes its file.
        source = Slow(path.read_bytes())
        source.may.clear()
        task = asyncio.ensure_future(aio.open(source))
        await asyncio.to_thread(source.waits.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        source.may.set()

        # Running work is cancelled and awaited: no thread stays.
        begun = threading.Event()
        ended = threading.Event()

        def records():
            try:
                for n in range(10**9):
                    begun.set()
                    yield {"id": n}
                    time.sleep(0)
            finally:
                ended.set()

        kind = holdall.schema.infer([{"id": 1}])
        task = asyncio.create_task(aio.build(tmp_path / "r.mt", records(), kind))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not (tmp_path / "r.mt").exists() and [p.name for p in tmp_path.iterdir()] == ["m.zt"]

        # A tensor that arrives while no call waits is returned by the next call.
        source = Slow(path.read_bytes())
        async with aio.open(source) as f:
            source.may.clear()
            async with f.stream(["w1", "w2"]) as arriving:
                task = asyncio.create_task(anext(arriving))
                await asyncio.sleep(0.02)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                source.may.set()
                assert {name async for name, _ in arriving} == {"w1", "w2"}

    run(cancelled())


def test_a_load_that_is_cancelled_is_waited_for(path):
    async def cancelled():
        source = Slow(path.read_bytes())
        async with aio.open(source) as f:
            source.may.clear()
            source.waits.clear()
            task = asyncio.create_task(f.load())
            await asyncio.to_thread(source.waits.wait, 30)
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done(), "what is read now is read to its end"
            source.may.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await f.load(["w1"]))["w1"][0] == 1

    run(cancelled())


class Stumbles:
    """Tensors on their way, of which the second is an error."""

    def __init__(self):
        self.given, self.closed = iter([("a", 1), ValueError("not this one"), ("b", 2)]), False

    def __next__(self):
        found = next(self.given)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self):
        self.closed = True


def test_an_error_is_told_once():
    async def main():
        of = Stumbles()
        async with aio.Arriving(of) as arriving:
            assert await anext(arriving) == ("a", 1)
            with pytest.raises(ValueError, match="not this one"):
                await anext(arriving)
            assert await anext(arriving) == ("b", 2)
            with pytest.raises(StopAsyncIteration):
                await anext(arriving)
        assert of.closed

    run(main())


def test_what_is_wrong_is_raised_where_it_is_awaited(path, tmp_path):
    async def wrong():
        (tmp_path / "cut.zt").write_bytes(path.read_bytes()[:-20])
        with pytest.raises(holdall.MalformedError):
            await aio.open(tmp_path / "cut.zt")
        with pytest.raises(holdall.MissingFileError):
            async with aio.open(tmp_path / "none.zt"):
                raise AssertionError
        async with aio.open(path) as f:
            for call in (f.load(["none"]), f.read("none"), f.load_into({"none": np.zeros(1)}), f.records("w1", len)):
                with pytest.raises(holdall.HoldallError):
                    await call
            assert (await f.read("w1"))[0] == 1
        # Closing twice has no effect; a closed file raises.
        await f.close()
        with pytest.raises(holdall.UsageError):
            await f.load()
        with pytest.raises(holdall.HoldallError):
            await aio.convert(path, path)
        assert (await aio.load(path))["w2"][0] == 2

    run(wrong())


def test_a_close_that_is_cancelled_closes(path):
    async def cancelled():
        f = await aio.open(path)
        task = asyncio.ensure_future(f.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await f.close()
        assert f.file.closed

    run(cancelled())
