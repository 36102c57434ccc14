-- Decide and reward in turn: each answer to a decision becomes a reward with its token.
local tokens, first, last = {}, 1, 0
local decide, status = nil, {}
local headers = { ["Content-Type"] = "application/json" }

function setup(thread)
  thread:set("refused", 0)
  table.insert(status, thread)
end

function init(arguments)
  local name = arguments[1] or "ads"
  decide = wrk.format("POST", "/v1/experiments/" .. name .. "/decide", headers, "{}")
end

function request()
  if first <= last then
    local token = tokens[first]
    tokens[first] = nil
    first = first + 1
    return wrk.format("POST", "/v1/rewards", headers, '{"decision":"' .. token .. '","value":1}')
  end
  return decide
end

function response(code, received, body)
  if code ~= 200 then
    refused = refused + 1
  end
  local token = string.match(body, '"decision":"([^"]+)"')
  if token then
    last = last + 1
    tokens[last] = token
  end
end

function done(summary, latency, requests)
  local refused = 0
  for _, thread in ipairs(status) do
    refused = refused + thread:get("refused")
  end
  local errors = summary.errors
  io.write(string.format(
    "RESULT %d %d %.3f %.3f %d\n", summary.requests, summary.duration,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    refused + errors.connect + errors.read + errors.write + errors.timeout))
end
