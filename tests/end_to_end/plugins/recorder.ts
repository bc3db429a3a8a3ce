// A Pi extension: keeps what it is told in ~/hook.log, and adds what ~/hook.replies holds for an event.
import * as fs from "node:fs"

const home = process.env.HOME
const events = [
  "session_start", "before_agent_start", "agent_start", "turn_start", "context", "tool_call", "tool_result",
  "turn_end", "agent_end", "agent_settled", "session_before_compact", "session_compact", "session_shutdown",
]

const take = (event: string) => {
  const path = home + "/hook.replies"
  if (!fs.existsSync(path)) return null
  const replies = JSON.parse(fs.readFileSync(path, "utf8"))
  const reply = replies[event]?.shift() ?? null
  fs.writeFileSync(path, JSON.stringify(replies))
  return reply
}

export default function (pi: any) {
  for (const event of events)
    pi.on(event, async (payload: any, ctx: any) => {
      const reply = take(event)
      const session = { id: ctx.sessionManager?.getSessionId?.(), mode: ctx.mode, idle: ctx.isIdle?.() }
      const line = { event, payload: { ...payload, session }, environment: {}, reply }
      fs.appendFileSync(home + "/hook.log", JSON.stringify(line) + "\n")
      if (!reply) return
      const message = { customType: "tellwire", content: reply.text, display: true }
      if (reply.how === "return") return { message }
      pi.sendMessage(message, { deliverAs: reply.how, triggerTurn: true })
    })
}
