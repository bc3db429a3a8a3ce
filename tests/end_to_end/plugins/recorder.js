// An OpenCode plugin: keeps what it is told in ~/hook.log, and adds what ~/hook.replies holds for an event.
import fs from "node:fs"

const home = process.env.HOME
const noise = /^(message\.part\.delta|server\.|tui\.|catalog|plugin|installation|lsp|file)/

const take = (event) => {
  const path = home + "/hook.replies"
  if (!fs.existsSync(path)) return null
  const replies = JSON.parse(fs.readFileSync(path, "utf8"))
  const reply = replies[event]?.shift() ?? null
  fs.writeFileSync(path, JSON.stringify(replies))
  return reply
}

const keep = (event, payload, reply = null) => {
  const words = Object.entries(process.env).filter(([name]) => name.startsWith("OPENCODE"))
  const line = { event, payload, environment: Object.fromEntries(words), reply }
  fs.appendFileSync(home + "/hook.log", JSON.stringify(line) + "\n")
}

export const Recorder = async ({ client }) => ({
  event: async ({ event }) => {
    if (noise.test(event.type)) return
    const reply = take(event.type)
    keep(event.type, event.properties, reply)
    if (reply)
      await client.session.promptAsync({
        path: { id: event.properties.sessionID },
        body: { parts: [{ type: "text", text: reply }] },
      })
  },
  "chat.message": async (input, output) => keep("chat.message", { input, output }),
  "tool.execute.before": async (input, output) => keep("tool.execute.before", { input, output }),
  "tool.execute.after": async (input, output) => {
    const reply = take("tool.execute.after")
    if (reply && typeof output.output === "string") output.output += "\n" + reply
    else if (reply) output.content.push({ type: "text", text: reply })
    keep("tool.execute.after", { input, output }, reply)
  },
  "experimental.chat.messages.transform": async (input, output) =>
    keep("experimental.chat.messages.transform", { input, messages: output.messages }),
  dispose: async () => keep("dispose", {}),
})
