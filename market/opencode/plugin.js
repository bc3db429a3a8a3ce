// tellwire's plugin for OpenCode, from a package: messages of other agents enter its sessions.
// It tells the broker what happens and puts in what the broker answers. It needs no package and prints nothing, and
// no failure of it reaches the client: without a broker OpenCode is as it was.
import { createHmac, randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { connect } from "node:net"

const settings = { endpoint: (process.env.TELLWIRE_HOME || (process.env.XDG_STATE_HOME || process.env.HOME + '/.local/state') + '/tellwire') + '/hooks.json', server: ["tellwire", "mcp", "--plugin"], source: 'package' }

const MARK = /peer-message id=[^\s"\\]{1,80} from=|tellwire: notice id=[^\s"\\]{1,80} /g
const MARKS_MAX = 500
const REQUESTS_MAX = 50
const ANSWER_MS = 1500
const POLL_MS = 40000
const PAUSE_MS = 2000
const PROOF_BYTES_MAX = 4096
const PROMPT_CHARS = 4000
const TOLD_MAX = 300
const WRITERS = new Set(["write", "edit", "multiedit", "patch", "apply_patch"])
const TOLD_CHARS = 600000

// One process has one poll, whichever of its projects loaded this file; the session that spoke last is woken,
// as long as its human sees it.
// After one wait for the broker in vain the rest of the turn does not wait again.
const shared = (globalThis[Symbol.for("tellwire")] ??= { polling: false, stalled: false })
// `opencode run` ends with its turn, and nothing may keep it.
const headless = process.argv[2] === "run"

const pause = (ms) => new Promise((done) => setTimeout(done, ms).unref?.())
const within = (work, ms) => Promise.race([work, pause(ms)])

// The id of a turn's end, by which the broker counts it once, however often it is told.
let endings = 0
const newEnding = () => `${Date.now().toString(36)}.${process.pid}.${++endings}`

// What the broker says to one request. Not by fetch, which may go through a proxy: the token is for this machine only.
// While no broker runs anybody may listen on its port: whoever does has to prove first that it knows the token.
const exchange = (path, body, signal) =>
  new Promise((done, fail) => {
    const { port, token } = JSON.parse(readFileSync(settings.endpoint, "utf8"))
    const data = Buffer.from(JSON.stringify({ pid: process.pid, ...body }))
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
    const socket = connect(port, "127.0.0.1")
    let said = Buffer.alloc(0)
    let proved = false
    let over = false
    signal.addEventListener("abort", () => {
      if (over) return // answered: the time of a signal runs on
      if (path.startsWith("/hooks/")) shared.stalled = true
      socket.destroy()
    })
    socket.on("error", fail)
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
    socket.on("close", () => (over = true) && done(proved ? said.toString() : ""))
    socket.write(`GET /proof/${nonce} HTTP/1.1\r\n${host}\r\n\r\n`)
  })

// What the broker answers, undefined if it could not be asked.
const ask = async (path, body, signal) => {
  try {
    const [head, said] = (await exchange(path, body, signal)).split("\r\n\r\n", 2)
    if (!head.startsWith("HTTP/1.1 200 ")) return undefined
    shared.stalled = false
    return said ? JSON.parse(said) : {}
  } catch {
    return undefined
  }
}

// The text in it, "" for none.
const post = async (...given) => {
  const said = await ask(...given)
  return said && (said.text ?? "")
}

const poll = async () => {
  if (shared.polling || headless) return
  shared.polling = true
  while (shared.wake) {
    shared.abort = new AbortController()
    const signal = AbortSignal.any([shared.abort.signal, AbortSignal.timeout(POLL_MS)])
    const said = await ask("/wait/opencode", shared.about(), signal)
    if (said?.text) await shared.wake?.(said.text)
    else if (said?.tell) await shared.told?.()
    else if (said === undefined) await pause(PAUSE_MS)
  }
  shared.polling = false
}

// A hook that throws would break the client's turn.
const safely = (hook) => async (...given) => {
  try {
    await hook(...given)
  } catch {}
}

export const Tellwire = async ({ client, directory }) => {
  // Installed by `tellwire install` and from a package too: the first one does the work.
  if ((shared.source ??= settings.source) !== settings.source) return {}
  const sessions = new Map()
  let current

  const session = (id) => {
    if (!sessions.has(id)) sessions.set(id, { answered: [], text: "", busy: false, summarising: 0 })
    return sessions.get(id)
  }

  // A sub-agent's session has a parent: the agent on the mesh is the parent, and its mail is not for children.
  const isMain = async (id) => {
    const it = session(id)
    if (it.child === undefined) {
      const found = await within(client.session.get({ path: { id } }), ANSWER_MS)
      if (found?.data) it.child = Boolean(found.data.parentID)
    }
    return it.child === false
  }

  const tell = async (id, event, more = {}, patient = false) => {
    const it = session(id)
    if (shared.stalled && !patient) {
      it.answered = it.answered.slice(-REQUESTS_MAX)
      return undefined
    }
    const told = it.answered.splice(0)
    const requests = told.map(({ began, marks }) => ({ age_ms: performance.now() - began, marks }))
    const until_ms = Date.now() + ANSWER_MS // nobody waits for the answer any longer
    const body = { hook_event_name: event, session_id: id, cwd: directory, requests, until_ms, ...more }
    const text = await post("/hooks/opencode", body, AbortSignal.timeout(ANSWER_MS))
    if (text === undefined) it.answered = [...told, ...it.answered].slice(-REQUESTS_MAX)
    return text
  }

  // The marks in what the model would be asked with now: of all since the last summary. Only what rests is whole.
  const held = async (id) => {
    const found = await within(client.session.messages({ path: { id } }), ANSWER_MS).catch(() => undefined)
    if (!found?.data) return {}
    const from = found.data.findLastIndex(({ info }) => info.summary === true)
    const marks = JSON.stringify(found.data.slice(Math.max(from, 0))).match(MARK) ?? []
    return { held: [...new Set(marks)].slice(-MARKS_MAX) }
  }

  // What is busy is not woken: the end of a turn is told until a broker has heard it, or the next turn begins.
  const tellEnd = async (id, event, more) => {
    const it = session(id)
    const ending = it.ending ?? newEnding()
    it.ending = undefined
    const isHeard = async (patient) => {
      it.held = headless ? {} : await held(id) // a process that is about to end has no time for it
      return (await tell(id, event, { ...more, ...it.held, ending }, patient)) !== undefined
    }
    const goOn = async () => {
      do await pause(PAUSE_MS)
      while (!it.busy && sessions.get(id) === it && !(await isHeard(true)))
    }
    if (!(await isHeard())) void goOn() // nobody waits for that
  }

  // Only what stood in a request that the model answered has been read.
  const answer = (it) => {
    if (it.request) it.answered.push(it.request)
    it.request = undefined
  }

  const body = (id, text) => ({ path: { id }, body: { ...session(id).speaker, parts: [{ type: "text", text }] } })
  const wake = safely((text) => within(client.session.promptAsync(body(current, text)), ANSWER_MS))

  // What the session has in it, without reasoning and the results of tools.
  const told = safely(async () => {
    const found = await within(client.session.messages({ path: { id: current } }), ANSWER_MS)
    let messages = (found?.data ?? []).slice(-TOLD_MAX).map(({ info, parts }) => ({
      info: { role: info.role, time: info.time },
      parts: parts
        .filter(({ type }) => type === "text" || type === "tool")
        .map(({ type, text, tool, state }) =>
          type === "text" ? { type, text } : { type, tool, state: { input: JSON.stringify(state?.input ?? {}).slice(0, 500) } },
        ),
    }))
    while (JSON.stringify(messages).length > TOLD_CHARS) messages = messages.slice(Math.ceil(messages.length / 2))
    const body = { hook_event_name: "session_told", session_id: current, messages }
    await ask("/hooks/opencode", body, AbortSignal.timeout(ANSWER_MS))
  })

  // A broker that has just been started knows nothing of us.
  const about = () => {
    const it = session(current)
    const about = { session_id: current, cwd: directory, until_ms: Date.now() + POLL_MS }
    return it.busy ? { hook_event_name: "busy", ...about } : { hook_event_name: "session_started", ...about, ...it.held }
  }

  // Which session is on the screen now, "" for none, as our other plugin tells. While its human sees none in which
  // something was said, nothing wakes: mail waits for the next prompt.
  const onShown = (id) => {
    const it = sessions.get(id)
    if (it?.child || (shared.wake === wake && current === id)) return
    if (it?.speaker) {
      current = id
      stop() // what is being asked is about the session before
      start()
    } else if (shared.wake === wake) stop()
  }

  const start = () => {
    Object.assign(shared, { wake, about, told })
    void poll()
  }
  const stop = () => {
    shared.wake = undefined
    shared.abort?.abort()
  }
  const screen = headless ? undefined : new BroadcastChannel("tellwire")
  if (screen) screen.onmessage = ({ data }) => onShown(data)
  screen?.unref?.()

  const onEvent = async ({ event }) => {
    const { sessionID: id, info, error } = event.properties ?? {}
    if (event.type === "session.created") session(info.id).child = Boolean(info.parentID)
    else if (event.type === "message.updated") {
      if (info.role === "assistant" && info.finish && !info.error) answer(session(info.sessionID))
    } else if (event.type === "session.deleted") {
      if (await isMain(info.id)) await tell(info.id, "session_ended")
      sessions.delete(info.id)
    } else if (event.type === "permission.asked" || event.type === "permission.replied") {
      const { permission, patterns } = event.properties ?? {}
      const message = [permission, ...(Array.isArray(patterns) ? patterns : [])].filter(Boolean).join(" ")
      if (!(await isMain(id))) return
      if (event.type === "permission.asked") await tell(id, "waiting", { message: message.slice(0, 200) })
      else await tell(id, "busy")
    } else if (event.type === "session.error") {
      const it = session(id)
      it.request = undefined
      it.failed = error?.name === "MessageAbortedError" ? "interrupted" : "errored"
    } else if (event.type === "session.idle") {
      const it = session(id)
      const { text, failed } = it
      if (!it.busy) return
      Object.assign(it, { busy: false, text: "", failed: undefined })
      const more = failed ? {} : { last_assistant_message: text }
      if (await isMain(id)) await tellEnd(id, failed ?? "turn_ended", more)
    }
  }

  const onPrompt = async (input, output) => {
    const id = input.sessionID
    const it = session(id)
    it.speaker = { agent: output.message.agent, model: output.message.model }
    if (!(await isMain(id))) return
    it.busy = true
    current = id
    start()
    const last = output.parts.at(-1)
    const own = output.parts.some((part) => part.type === "text" && part.text.search(MARK) >= 0)
    const words = output.parts.map((part) => (part.type === "text" ? part.text : "")).join("\n")
    const known = it.held ? {} : await held(id) // a session that goes on after its process was killed
    it.held = {}
    const text = await tell(id, own ? "busy" : "prompt", { prompt: words.slice(0, PROMPT_CHARS), ...known }, true)
    // A part of its own; the client orders parts by their ids.
    if (text && last) output.parts.push({ ...last, id: last.id + "p", type: "text", text, synthetic: true })
  }

  // What the model says before it calls a tool is not its final answer.
  const onTool = (id) => {
    const it = session(id)
    answer(it)
    if (headless && it.text && it.child === false) void tell(id, "busy") // the broker took it for the answer
    Object.assign(it, { text: "", failed: undefined, ending: undefined })
  }

  // Why a tool may not write where it wants to. Without a broker it may: nobody else is asked.
  const refusal = async ({ tool, sessionID: id }, { args }) => {
    if (!WRITERS.has(tool) || shared.stalled) return undefined
    try {
      const { filePath } = args
      // Of a patch only lines that may be headers: they say where it writes.
      const patchText = args.patchText?.split("\n").filter((line) => line.includes("***")).join("\n")
      const about = { hook_event_name: "write_wanted", session_id: id, cwd: directory }
      const more = { tool_name: tool, tool_input: { filePath, patchText }, agent_id: (await isMain(id)) ? "" : id }
      return (await ask("/hooks/opencode", { ...about, ...more }, AbortSignal.timeout(ANSWER_MS)))?.deny
    } catch {
      return undefined
    }
  }

  const onToolUsed = async ({ sessionID: id }, output) => {
    onTool(id)
    if (!(await isMain(id))) return
    const text = await tell(id, "tool_used")
    if (!text) return
    if (typeof output.output === "string") output.output += "\n\n" + text // its own tools
    else output.content.push({ type: "text", text }) // those of MCP servers
  }

  // The model's text is whole, and the turn may end here. A message added now makes it go on.
  const onText = async ({ sessionID: id, messageID }, output) => {
    const it = session(id)
    if (it.summarising) return
    answer(it)
    it.text = it.message === messageID ? it.text + output.text : output.text
    Object.assign(it, { message: messageID, failed: undefined })
    if (!(await isMain(id))) return
    // In a terminal mail begins the next turn: what was said here is then the end of this one, for all to hear.
    if (!headless) return
    // The process may end before it has told the end of its turn: this is what it said then.
    it.ending = newEnding()
    const text = await tell(id, "answered", { last_assistant_message: it.text, ending: it.ending })
    if (!text) return
    const said = body(id, text)
    said.body.noReply = true
    await within(client.session.prompt(said), ANSWER_MS)
  }

  const onRequest = async (_, output) => {
    const id = output.messages.at(-1)?.info.sessionID
    if (!id) return
    const it = session(id)
    if (it.summarising === 1) {
      it.summarising = 2
      return
    }
    it.summarising = 0
    const marks = [...new Set(JSON.stringify(output.messages).match(MARK) ?? [])].slice(-MARKS_MAX)
    it.request = { began: performance.now(), marks }
  }

  return {
    event: safely(onEvent),
    "chat.message": safely(onPrompt),
    "tool.execute.before": async (input, output) => {
      await safely(async ({ sessionID }) => onTool(sessionID))(input)
      const reason = await refusal(input, output)
      if (reason) throw new Error(reason) // the one that is meant for the model: the tool does not run
    },
    "tool.execute.after": safely(onToolUsed),
    "experimental.text.complete": safely(onText),
    "experimental.chat.messages.transform": safely(onRequest),
    // What a summary is made of is not read by the agent.
    "experimental.session.compacting": safely(async ({ sessionID }) => {
      session(sessionID).summarising = 1
    }),
    dispose: async () => {
      screen?.close()
      if (shared.wake === wake) stop()
    },
  }
}
