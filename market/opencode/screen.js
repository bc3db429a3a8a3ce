// tellwire's plugin for OpenCode's screen, written by `tellwire install opencode`. OpenCode tells no other plugin that
// its human has gone to another session, or to none with `/new`: this one does, so that mail follows.
const LOOK_MS = 100

export default {
  id: "tellwire",
  tui: async (api) => {
    const channel = new BroadcastChannel("tellwire") // within this process; the other plugin has a thread of its own
    let told
    const look = () => {
      try {
        const { name, params } = api.route.current
        const shown = name === "session" ? params.sessionID : ""
        if (shown !== told) channel.postMessage((told = shown))
      } catch {}
    }
    const timer = setInterval(look, LOOK_MS)
    timer.unref?.()
    channel.unref?.()
    api.lifecycle.onDispose(() => {
      clearInterval(timer)
      channel.close()
    })
  },
}
