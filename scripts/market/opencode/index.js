// tellwire for OpenCode, from a package. It adds what `tellwire install opencode` writes into the settings: the MCP
// server, and the rule that allows its tools. What the user has set stays as it is.
import { Tellwire as plugin } from "./plugin.js"

export const Tellwire = async (given) => ({
  ...(await plugin(given)),
  config: async (config) => {
    config.mcp ??= {}
    config.mcp.tellwire ??= __SERVER__
    config.permission ??= {}
    if (typeof config.permission === "object") config.permission["tellwire_*"] ??= "allow"
  },
})
