"""Stack tokens: round trips, damage, the encoders of examples/, and their names in logs and from the server."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whence
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.golang import environment, goroot
from tests.helpers.live import compiled
from tests.helpers.serving import TestClient
from whence import stack_token
from whence.cli.main import main
from whence.filter import LogFilter, Places
from whence.server.app import make_app
from whence.server.settings import ServerSettings
from whence.stack_token import FRAMES_LIMIT, StackToken, TokenError, TokenFrame, decode, encode, token_of
from whence.store import Store

EXAMPLES = Path(__file__).parent.parent / "examples" / "stack_token"
C_MAIN = """
void install_stack_token(void);
static volatile int zero;
__attribute__((noinline)) static int divide(int n) { return 100 / (n * zero); }
__attribute__((noinline)) static int call(int n) { return n ? call(n - 1) + 1 : divide(n); }
int main(void) { install_stack_token(); return call(3); }
"""
RUST_MAIN = """
#[path = "PATH"] mod stack_token;
#[inline(never)] fn call(n: usize) -> usize { if n > 0 { return call(n - 1) + 1; } let v: Vec<usize> = vec![]; v[n] }
fn main() {
    std::panic::set_hook(Box::new(|_| println!("panic: {}", stack_token::stack_token())));
    std::process::exit(call(3) as i32);
}
"""
GO_MAIN = """package main
import ("fmt"; "os"; "example/stacktoken")
func divide(n int) int { return 10 / n }
//go:noinline
func call(n int) int { if n == 0 { return divide(n) }; return call(n - 1) + 1 }
func main() {
	defer func() { if recover() != nil { fmt.Println("panic:", stacktoken.Token(0)); os.Exit(3) } }()
	call(3)
}
"""

addresses = st.integers(0, (1 << 64) - 1) | st.integers(0x1000, 0x80000)


@st.composite
def tokens(draw: st.DrawFn) -> StackToken:
    modules = tuple(draw(st.lists(st.integers(1, (1 << 40) - 1).map("{:010x}".format), max_size=5)))
    numbers = st.none() | st.integers(0, len(modules) - 1) if modules else st.none()
    frames = draw(st.lists(st.builds(TokenFrame, numbers, addresses), max_size=40))
    return StackToken(modules, tuple(frames), draw(st.booleans()))


@given(tokens())
def test_a_token_is_decoded_to_the_stack_that_was_encoded(stack: StackToken) -> None:
    assert decode(encode(stack)) == stack


@given(tokens(), st.data())
def test_a_changed_or_missing_character_is_noticed(stack: StackToken, data: st.DataObject) -> None:
    token = encode(stack)
    index = data.draw(st.integers(len(stack_token.PREFIX), len(token) - 1))
    other = data.draw(st.sampled_from([c for c in stack_token.ALPHABET if c != token[index]]))
    for damaged in (token[:index] + other + token[index + 1 :], token[:index]):
        try:
            changed = decode(damaged)
        except TokenError:
            continue
        assert stack_token.check_of(damaged[5:-2]) == stack_token.check_of(token[5:-2]) or damaged != token
        assert changed != stack


def test_thirty_frames_of_two_modules_are_under_150_characters() -> None:
    vaddrs = [0x1139 + 17_881 * index % 500_000 for index in range(28)]
    token = token_of([("ab" * 20, vaddr) for vaddr in vaddrs] + [("cd" * 20, 0x2724A), ("cd" * 20, 0x27305)])
    assert len(token) < 150
    assert len(decode(token).frames) == 30


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("wst2.AAAA", "expected 'wst1.' at the start"),
        ("wst1.", "the check does not match"),
        ("wst1.A*AA", "not a character of base64url"),
        ("wst1.AAAA", "the check does not match"),
    ],
)
def test_other_text_is_an_error(token: str, message: str) -> None:
    with pytest.raises(TokenError, match=re.escape(message)):
        decode(token)


def checked(payload: str) -> str:
    value = stack_token.check_of(payload)
    return stack_token.PREFIX + payload + stack_token.ALPHABET[value >> 6] + stack_token.ALPHABET[value & 63]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("B", "truncated: needs 7 characters, 0 left"),
        ("AAA", "module 0 of 0"),
        ("BAAAAAAAQB", "the address has more than 64 bits"),
        ("BAAAAAAA" + "AA" * (FRAMES_LIMIT + 1), "more than 1,024 frames"),
        ("BAAAAAAAO__", "truncated: needs 11 characters, 2 left"),
    ],
)
def test_payloads_that_make_no_sense_are_errors(payload: str, message: str) -> None:
    with pytest.raises(TokenError, match=re.escape(message)):
        decode(checked(payload))


def test_many_modules_and_frames_are_cut() -> None:
    frames = tuple(TokenFrame(index % 40, index) for index in range(FRAMES_LIMIT + 10))
    stack = decode(encode(StackToken(tuple(f"{index + 1:010x}" for index in range(40)), frames)))
    assert len(stack.modules) == 31
    assert len(stack.frames) == FRAMES_LIMIT
    assert stack.frames[30:33] == (TokenFrame(30, 30), TokenFrame(None, 31), TokenFrame(None, 32))


# encoders in other languages, by programs that crash


def named(text: str, program: Path) -> list[str]:
    with Places(whence.Locator(binaries=program)) as places:
        log = LogFilter(places)
        lines = (log.feed(text.encode()) + log.finish()).decode().splitlines()
    return [line.partition(" at ")[0].split()[-1] for line in lines if line.startswith("    #")]


def output_of(program: Path) -> str:
    done = subprocess.run([program], cwd=program.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert (done.stdout + done.stderr).count(stack_token.PREFIX) == 1
    return done.stdout + done.stderr


def test_the_encoder_of_c_writes_the_stack_of_a_crash(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-Wall", "-Wextra", "-Werror", str(EXAMPLES / "stack_token.c"), source=C_MAIN)
    assert named(output_of(program), program)[:6] == ["divide", *["call"] * 4, "main"]


def test_the_encoder_of_rust_writes_the_stack_of_a_panic(tmp_path: Path) -> None:
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    source, program = tmp_path / "main.rs", tmp_path / "program"
    source.write_text(RUST_MAIN.replace("PATH", str(EXAMPLES / "stack_token.rs")))
    command = ["rustc", "--edition", "2021", "-g", "-D", "warnings", "-C", "link-arg=-Wl,--build-id"]
    subprocess.run([*command, source, "-o", program], check=True)
    names = named(output_of(program), program)
    first = names.index("main::call")
    assert names[first : first + 5] == ["main::call"] * 4 + ["main::main"]


def test_the_encoder_of_go_writes_the_stack_of_a_panic(tmp_path: Path) -> None:
    root = goroot()
    (tmp_path / "stacktoken").mkdir()
    shutil.copy(EXAMPLES / "stack_token.go", tmp_path / "stacktoken")
    (tmp_path / "main.go").write_text(GO_MAIN)
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.21\n")
    program = tmp_path / "program"
    command: list[str | Path] = [root / "bin" / "go", "build", "-ldflags=-B gobuildid", "-o", program, "."]
    subprocess.run(command, cwd=tmp_path, env=environment(root), check=True)
    names = named(output_of(program), program)
    first = names.index("main.divide")  # inlined into call
    assert names[first : first + 5] == ["main.divide", *["main.call"] * 3, "main.main"]


def python_encoder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_stack_token", EXAMPLES / "stack_token.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(st.lists(st.tuples(st.sampled_from(["", "ab" * 20, "0123456789"]), addresses), max_size=30), st.booleans())
def test_the_encoder_of_python_writes_the_same_tokens(frames: list[tuple[str, int]], is_return: bool) -> None:
    assert python_encoder().encode(frames, is_return=is_return) == token_of(frames, is_return=is_return)


def test_the_encoder_of_python_writes_its_own_native_stack() -> None:
    source = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import stack_token; print(stack_token.token())"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    stack = decode(done.stdout.strip())
    assert stack.is_return
    assert len(stack.frames) > 5
    assert any(stack.modules)


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_an_encoder_has_at_most_100_lines(path: Path) -> None:
    if path.is_file():
        assert len(path.read_text().splitlines()) <= 100


# names


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("token"), "-O2", "-pthread", source=PROGRAM)


@pytest.fixture(scope="module")
def core(program: Path) -> Path:
    return core_of(program, "q")


@pytest.fixture(scope="module")
def token(core: Path) -> str:
    return whence.Core(core).stacks()[0].token()


def test_tokens_of_a_core_have_the_names_of_its_stack(core: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["core", str(core), "--style", "token"]) == 0
    lines = capfd.readouterr().out.splitlines()
    stacks = whence.Core(core).stacks()
    assert lines == [stack.token() for stack in stacks]
    for line, stack in zip(lines, stacks, strict=True):
        frames = decode(line).frames
        assert [frame.address for frame in frames] == [frame.place.vaddr for frame in stack.frames]


def test_filtering_a_named_log_changes_nothing(token: str, program: Path) -> None:
    with Places(whence.Locator(binaries=program)) as places:
        first = LogFilter(places)
        text = b"crashed: " + token.encode() + b" in 3 ms\nnext line\n"
        once = first.feed(text) + first.finish()
        assert b" =>\n    #0 boom at " in once
        assert once.endswith(b"\nin 3 ms\nnext line\n")
        again = LogFilter(places)
        assert again.feed(once) + again.finish() == once


def test_a_token_in_json_stays_on_its_line(token: str, program: Path) -> None:
    with Places(whence.Locator(binaries=program)) as places:
        log = LogFilter(places)
        named = log.feed(json.dumps({"message": token}).encode() + b"\n") + log.finish()
    assert named.count(b"\n") == 1
    assert "=> #0 boom at " in json.loads(named)["message"]


def test_a_damaged_token_is_counted_and_kept(token: str) -> None:
    with Places() as places:
        log = LogFilter(places)
        text = token[:-1].encode() + b"\n"
        assert log.feed(text) + log.finish() == text
        assert {reason.word for reason, _ in places.reasons} == {"damaged-token"}


@pytest.fixture(scope="module")
def store(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("store")
    with Store(location) as store:
        store.add(program)
    return location


@pytest.fixture
def client(store: Path) -> Iterator[TestClient]:
    with TestClient(make_app(ServerSettings(store=str(store)))) as client:
        yield client


def test_the_server_names_a_token_as_json_text_or_page(token: str, client: TestClient) -> None:
    frames = client.get(f"/stack/{token}").json()["frames"]
    names = [frame["frames"][0]["function"] if frame["frames"] else frame["reason"] for frame in frames]
    assert names[:2] == ["boom", "inlined"]
    assert "no-file" in names  # of the C library
    assert all(frame["build_id"] for frame in frames)
    text = client.get(f"/stack/{token}", headers={"Accept": "text/plain"}).text
    assert text.startswith("#0  boom at ")
    page = client.get(f"/stack/{token}", headers={"Accept": "text/html"})
    assert "boom at" in page.text
    assert page.headers["Content-Type"].startswith("text/html")


def test_the_server_refuses_damaged_tokens(token: str, client: TestClient) -> None:
    for damaged in ("x", token[:-1], token + "A"):
        answer = client.get(f"/stack/{damaged}")
        assert answer.status_code == 400, damaged
        assert "error" in answer.json()


def test_sources_list_build_ids_by_prefix(program: Path, store: Path, tmp_path: Path) -> None:
    build_id = whence.open(program).build_id
    debug = tmp_path / "debug" / ".build-id" / build_id[:2]
    debug.mkdir(parents=True)
    shutil.copy(program, debug / f"{build_id[2:]}.debug")
    archives = tmp_path / "archives"
    archives.mkdir()
    assert main(["lidia", "create", str(program), "-o", str(archives / f"{build_id}.lidia")]) == 0
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(program, folder)
    for options in (
        {"binaries": program}, {"binaries": folder}, {"debug_dirs": tmp_path / "debug"}, {"archive_dirs": archives},
        {"store": store},
    ):  # fmt: skip
        with whence.Locator(**options) as locator:  # type: ignore[arg-type]
            assert locator.build_ids_with(build_id[:10]) == [build_id], options
            assert locator.build_ids_with("0000000000") == []
