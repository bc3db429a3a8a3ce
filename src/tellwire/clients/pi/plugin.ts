// tellwire's extension for Pi, written by `tellwire install pi`: its tools, and messages of other agents.
// It tells the broker what happens and puts in what the broker answers. It prints nothing, and no failure of it
// reaches the client: without a broker Pi is as it was.
import { type ChildProcess, spawn } from "node:child_process"
import { createHmac, randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import * as net from "node:net"
import * as readline from "node:readline"

const settings: { endpoint: string; server: string[]; source: string } = __SETTINGS__

const MARK = /peer-message id=[^\s"\\]{1,80} from=|tellwire: notice id=[^\s"\\]{1,80} /g
const MARKS_MAX = 500
const REQUESTS_MAX = 50
const ANSWER_MS = 1500
const POLL_MS = 40000
const PAUSE_MS = 2000
const PROOF_BYTES_MAX = 4096
const PROMPT_CHARS = 4000
const PROTOCOL = "2025-06-18"

type Tool = { name: string; description?: string; inputSchema: any }
type Request = { began: number; marks: string[] }

// Pi loads this file anew for /new, /resume and /reload; the connection to the mesh outlives that.
const shared: {
  source?: string
  shim?: Shim
  wake?: (text: string) => void
  about?: () => object
  polling?: boolean
  stalled?: boolean // after one wait for the broker in vain the rest of the turn does not wait again
  poll?: net.Socket
} = ((globalThis as any)[Symbol.for("tellwire")] ??= {})

const pause = (ms: number) => new Promise<undefined>((done) => setTimeout(() => done(undefined), ms).unref())
const within = <T>(work: Promise<T>, ms: number) => Promise.race([work, pause(ms)])

// What the broker says to one request, "" if it does not. Not by fetch, which Pi may send through a proxy. While no broker runs anybody may listen on its port: whoever
// does has to prove first that it knows the token.
const exchange = (path: string, body: object, ms: number, begun?: (socket: net.Socket) => void) =>
  new Promise<string>((done) => {
    const { port, token } = JSON.parse(readFileSync(settings.endpoint, "utf8"))
    // Later than `until_ms` nobody waits for the answer.
    const data = Buffer.from(JSON.stringify({ pid: process.pid, until_ms: Date.now() + ms, ...body }))
    const host = `Host: 127.0.0.1:${port}`
    const nonce = randomBytes(16).toString("hex")
    const proof = createHmac("sha256", token).update(`tellwire broker ${nonce}`).digest("hex")
    const head = [
      `POST ${path} HTTP/1.1`,
      host,
      `Authorization: Bearer ${token}`,
      "Content-Type: application/json",
      `Content-Length: ${data.length}`,
      "Connection: close",
    ]
    const socket = net.connect(port, "127.0.0.1")
    let said = Buffer.alloc(0)
    let proved = false
    const timer = setTimeout(() => {
      if (path.startsWith("/hooks/")) shared.stalled = true
      socket.destroy()
    }, ms)
    socket.on("error", () => done(""))
    socket.on("data", (part) => {
      said = Buffer.concat([said, part])
      if (proved) return
      const from = said.indexOf("\r\n\r\n") + 4
      const end = from + proof.length
      if (said.length < (from < 4 ? PROOF_BYTES_MAX : end)) return
      proved = from >= 4 && said.subarray(from, end).toString() === proof
      if (!proved) return socket.destroy()
      said = said.subarray(end)
      socket.write(Buffer.concat([Buffer.from(head.join("\r\n") + "\r\n\r\n"), data]))
    })
    socket.on("close", () => (clearTimeout(timer), done(proved ? said.toString() : "")))
    begun?.(socket)
    socket.write(`GET /proof/${nonce} HTTP/1.1\r\n${host}\r\n\r\n`)
  })

// The text or the refusal that the broker answers, "" for none, undefined if it could not be asked.
const post = async (...given: Parameters<typeof exchange>) => {
  try {
    const [head, said] = (await exchange(...given)).split("\r\n\r\n", 2)
    if (!head.startsWith("HTTP/1.1 200 ")) return undefined
    shared.stalled = false
    const { text, deny } = said ? JSON.parse(said) : {}
    return (deny ?? text ?? "") as string
  } catch {
    return undefined
  }
}

const poll = async () => {
  if (shared.polling) return
  shared.polling = true
  while (shared.wake) {
    const text = await post("/wait/pi", shared.about?.() ?? {}, POLL_MS, (socket) => (shared.poll = socket))
    if (text) shared.wake?.(text)
    else if (text === undefined && shared.wake) await pause(PAUSE_MS)
  }
  shared.polling = false
}

// tellwire's MCP server as a child: Pi speaks no MCP itself.
class Shim {
  tools: Tool[] = []
  instructions = ""
  alive = true
  private child: ChildProcess
  private asked = new Map<number, (answer: any) => void>()
  private number = 0

  constructor(cwd: string) {
    const [program, ...words] = settings.server
    this.child = spawn(program, words, { cwd, stdio: ["pipe", "pipe", "ignore"] })
    this.child.on("error", () => this.end())
    this.child.on("exit", () => this.end())
    this.child.stdin!.on("error", () => this.end())
    readline.createInterface({ input: this.child.stdout! }).on("line", (line) => {
      try {
        const answer = JSON.parse(line)
        this.asked.get(answer.id)?.(answer)
        this.asked.delete(answer.id)
      } catch {}
    })
  }

  async begin(version: string) {
    const clientInfo = { name: "pi", version }
    const met = await this.ask("initialize", { protocolVersion: PROTOCOL, capabilities: {}, clientInfo })
    this.instructions = met.instructions ?? ""
    this.say({ method: "notifications/initialized" })
    this.tools = (await this.ask("tools/list", {})).tools
  }

  ask(method: string, params: object, signal?: AbortSignal): Promise<any> {
    const id = ++this.number
    return new Promise((done, fail) => {
      if (!this.alive) return fail(new Error("tellwire cannot be reached."))
      const cancel = () => {
        this.say({ method: "notifications/cancelled", params: { requestId: id } })
        this.asked.delete(id)
        fail(new Error("Cancelled."))
      }
      this.asked.set(id, (answer) => {
        signal?.removeEventListener("abort", cancel)
        if (answer.error) fail(new Error(answer.error.message))
        else done(answer.result)
      })
      signal?.addEventListener("abort", cancel, { once: true })
      this.say({ id, method, params })
    })
  }

  private say(message: object) {
    this.child.stdin!.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n")
  }

  end() {
    this.alive = false
    for (const answer of this.asked.values()) answer({ error: { message: "tellwire cannot be reached." } })
    this.asked.clear()
    this.child.stdin!.destroy()
    this.child.stdout!.destroy()
    this.child.unref()
  }
}

// The marks in what the model would be asked with now. Only what rests is whole.
const held = (ctx: any) => {
  try {
    const entries = ctx.sessionManager.buildContextEntries?.() ?? ctx.sessionManager.getBranch()
    return { held: [...new Set<string>(JSON.stringify(entries).match(MARK) ?? [])].slice(-MARKS_MAX) }
  } catch {
    return {}
  }
}

export default function (pi: any) {
  // Installed by `tellwire install` and from a package too: the first one does the work.
  if ((shared.source ??= settings.source) !== settings.source) return
  let session = ""
  let cwd = ""
  let file = ""
  let request: Request | undefined
  let answered: Request[] = []
  let last = ""
  let ending = "turn_ended"
  let prompted = false
  let busy = false

  // A handler that throws would show an error on the screen.
  const on = (event: string, handler: (event: any, ctx: any) => any) =>
    pi.on(event, async (given: any, ctx: any) => {
      try {
        return await handler(given, ctx)
      } catch {}
    })

  const tell = async (event: string, more: object = {}, patient = false) => {
    if (shared.stalled && !patient) {
      answered = answered.slice(-REQUESTS_MAX)
      return undefined
    }
    const told = answered.splice(0)
    const requests = told.map(({ began, marks }) => ({ age_ms: performance.now() - began, marks }))
    const body = { hook_event_name: event, session_id: session, transcript_path: file, cwd, requests, ...more }
    const text = await post("/hooks/pi", body, ANSWER_MS)
    if (text === undefined) answered = [...told, ...answered].slice(-REQUESTS_MAX)
    return text
  }

  // What is busy is not woken: the end of a turn is told until a broker has heard it, or the next turn begins.
  const tellEnd = async (_event: any, ctx: any) => {
    busy = false
    const ended = session
    const event = ending
    const more = event === "turn_ended" ? { last_assistant_message: last } : {}
    const told = { ...more, ending: `${Date.now().toString(36)}.${process.pid}` }
    const isHeard = async (patient = false) => (await tell(event, { ...told, ...held(ctx) }, patient)) !== undefined
    const goOn = async () => {
      do await pause(PAUSE_MS)
      while (!busy && session === ended && !(await isHeard(true)))
    }
    if (!(await isHeard())) void goOn() // nobody waits for that
  }

  const message = (text: string) => ({ customType: "tellwire", content: text, display: true })

  const offer = (tool: Tool, shim: Shim) =>
    pi.registerTool({
      name: `tellwire_${tool.name}`,
      label: `tellwire ${tool.name}`,
      description: tool.description ?? "",
      parameters: tool.inputSchema,
      async execute(_id: string, params: object, signal?: AbortSignal) {
        const result = await shim.ask("tools/call", { name: tool.name, arguments: params }, signal)
        const content = (result.content ?? []).filter((part: any) => part.type === "text")
        if (result.isError) throw new Error(content.map((part: any) => part.text).join("\n"))
        return { content, details: undefined }
      },
    })

  const join = async () => {
    if (!shared.shim?.alive) {
      shared.shim = new Shim(cwd)
      await shared.shim.begin(process.env.PI_VERSION ?? "")
    }
    for (const tool of shared.shim.tools) offer(tool, shared.shim)
  }

  on("session_start", async (_event, ctx) => {
    session = ctx.sessionManager.getSessionId()
    cwd = ctx.cwd
    file = ctx.sessionManager.getSessionFile() ?? ""
    const joined = join()
      .catch(() => undefined)
      .then(() => tell("session_started", held(ctx), true))
    await within(joined, ANSWER_MS)
    if (ctx.mode !== "tui" && ctx.mode !== "rpc") return // a headless run ends with its turn
    shared.wake = (text) => pi.sendMessage(message(text), { deliverAs: "steer", triggerTurn: true })
    // A broker that has just been started knows nothing of us.
    shared.about = () => {
      const about = { session_id: session, transcript_path: file, cwd }
      return ctx.isIdle() ? { hook_event_name: "session_started", ...about, ...held(ctx) } : { hook_event_name: "busy", ...about }
    }
    void poll()
  })

  on("before_agent_start", async (event) => {
    prompted = busy = true
    const text = await tell("prompt", { prompt: String(event.prompt ?? "").slice(0, PROMPT_CHARS) }, true)
    // What other clients do with an MCP server's instructions.
    const known = shared.shim?.instructions
    const told = known ? { systemPrompt: `${event.systemPrompt}\n\n${known}` } : {}
    return text ? { ...told, message: message(text) } : told
  })

  on("agent_start", async () => {
    if (!prompted) await tell("busy", {}, true) // a turn that a message began
    prompted = false
    busy = true
    last = ""
    ending = "turn_ended"
  })

  on("context", (event) => {
    const marks = [...new Set<string>(JSON.stringify(event.messages).match(MARK) ?? [])].slice(-MARKS_MAX)
    request = { began: performance.now(), marks }
  })

  // What stands here enters the session before the next request, and an Esc does not lose it.
  on("turn_end", async (event) => {
    if (event.outcome !== "completed") {
      request = undefined
      ending = event.message?.stopReason === "aborted" ? "interrupted" : "errored"
      return
    }
    ending = "turn_ended"
    // Only what stood in a request that the model answered has been read.
    if (request) answered.push(request)
    request = undefined
    const parts = event.message.content.filter((part: any) => part.type === "text")
    // What the model says before it calls a tool is not its final answer.
    last = event.toolResults.length ? "" : parts.map((part: any) => part.text).join("")
    const text = event.toolResults.length ? await tell("tool_used") : await tell("answered", { last_assistant_message: last })
    if (text) return { entries: [...event.entries, { type: "custom_message", ...message(text) }], continue: true }
  })

  // Whether a file may be written. Without a broker it may: nobody else is asked.
  on("tool_call", async (event) => {
    if ((event.toolName !== "write" && event.toolName !== "edit") || shared.stalled) return
    const about = { hook_event_name: "write_wanted", session_id: session, transcript_path: file, cwd }
    const more = { tool_name: event.toolName, tool_input: { path: event.input?.path } }
    const reason = await post("/hooks/pi", { ...about, ...more }, ANSWER_MS)
    if (reason) return { block: true, reason }
  })

  on("ui_prompt_start", () => tell("waiting"))
  on("ui_prompt_end", () => tell("busy"))
  on("agent_settled", tellEnd)

  on("session_shutdown", async (event) => {
    shared.wake = undefined
    shared.poll?.destroy()
    await tell("session_ended")
    if (event.reason !== "quit") return
    shared.shim?.end()
  })
}
