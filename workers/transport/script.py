"""The Lua scripts of the transport: every step that must happen whole or not at all is one of them."""

from dataclasses import dataclass
from hashlib import sha1


@dataclass(frozen=True, kw_only=True)
class Script:
    """One Lua script, with the name under which a server remembers it after the first ``EVAL``."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> "Script":
        """Name the text the way the server does: by its SHA-1."""
        return cls(text=text, digest=sha1(text.encode(), usedforsecurity=False).hexdigest())


#: One turn: forget the acknowledged messages, then move up to ARGV[1] messages from their lists into ``unacked`` and
#: ``unacked_index``. A message is on a list or in ``unacked`` at every moment, so a connection cut after the reply
#: costs a redelivery, never a message.
#: KEYS: unacked, unacked_index, unreadable, then the lists, all of priority step 0 first, then the next step.
#: ARGV: messages wanted, lists per step, '1' to go round the lists or '0' to empty them in order, one '1'
#: (registered) or '0' (consumed without acknowledgement) per list of a step, the most to take of each queue whatever
#: the step, then acknowledged tags.
#: Reply: messages moved aside as unreadable, then list number and raw message for each one taken. RPOP comes before
#: HSET because a full server (noeviction) refuses a script whose first write grows memory; a failed registration puts
#: the message back.
TURN = Script.of("""
local want, width, fair = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local first_tag = 4 + 2 * width
if #ARGV >= first_tag then
  redis.call('ZREM', KEYS[2], unpack(ARGV, first_tag))
  redis.call('HDEL', KEYS[1], unpack(ARGV, first_tag))
end
local reply = {0}
if want < 1 or width < 1 then return reply end
local clock = redis.call('TIME')
local now = string.format('%d.%06d', clock[1], clock[2])
local function envelope(raw)
  local properties = cjson.decode(raw).properties
  local tag, info = properties.delivery_tag, properties.delivery_info
  if type(tag) ~= 'string' then error('no delivery tag') end
  local exchange, routing_key = cjson.encode(info.exchange or ''), cjson.encode(info.routing_key or '')
  return tag, '[' .. raw .. ',' .. exchange .. ',' .. routing_key .. ']'
end
local function register(tag, entry)
  redis.call('HSET', KEYS[1], tag, entry)
  redis.call('ZADD', KEYS[2], now, tag)
end
local left = {}
for slot = 1, width do left[slot] = tonumber(ARGV[3 + width + slot]) end
local function take(slot, key)
  if left[slot] < 1 then return false end
  local raw = redis.call('RPOP', key)
  if not raw then return false end
  want, left[slot] = want - 1, left[slot] - 1
  if ARGV[3 + slot] == '1' then
    local readable, tag, entry = pcall(envelope, raw)
    if not readable then
      redis.call('LPUSH', KEYS[3], raw)
      reply[1] = reply[1] + 1
      return true
    end
    local registered, problem = pcall(register, tag, entry)
    if not registered then
      redis.call('RPUSH', key, raw)
      error(problem)
    end
  end
  reply[#reply + 1] = slot
  reply[#reply + 1] = raw
  return true
end
for step = 0, (#KEYS - 3) / width - 1 do
  local base = 3 + step * width
  if fair then
    local dry, moved = {}, true
    while moved do
      moved = false
      for slot = 1, width do
        if want < 1 then return reply end
        if not dry[slot] then
          if take(slot, KEYS[base + slot]) then moved = true else dry[slot] = true end
        end
      end
    end
  else
    for slot = 1, width do
      while want > 0 and take(slot, KEYS[base + slot]) do end
    end
  end
end
return reply
""")

#: Lists up to ARGV[2] messages that nobody renewed for ARGV[1] seconds, by the server's clock: tag and entry, one
#: after the other. An index row without its entry is dropped here, or it would head every later list.
#: KEYS: unacked, unacked_index.
OVERDUE = Script.of("""
local clock = redis.call('TIME')
local until_ = clock[1] + clock[2] / 1000000 - tonumber(ARGV[1])
local reply = {}
for _, tag in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', until_, 'LIMIT', 0, ARGV[2])) do
  local entry = redis.call('HGET', KEYS[1], tag)
  if entry then
    reply[#reply + 1] = tag
    reply[#reply + 1] = entry
  else
    redis.call('ZREM', KEYS[2], tag)
  end
end
return reply
""")

#: Moves one message from ``unacked`` back to its lists, unless it was acknowledged, restored by another worker, or
#: renewed meanwhile. Those three checks make a mutex needless: a dead holder of one stops all redelivery until it
#: expires.
#: KEYS: unacked, unacked_index, then the lists. ARGV: tag, seconds it must have been idle (-1: whatever), LPUSH or
#: RPUSH, one payload per list.
#: Reply: 1 when it was moved.
RESTORE = Script.of("""
local idle = tonumber(ARGV[2])
if idle >= 0 then
  local score = redis.call('ZSCORE', KEYS[2], ARGV[1])
  local clock = redis.call('TIME')
  if not score or clock[1] + clock[2] / 1000000 - tonumber(score) < idle then return 0 end
end
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
for list = 3, #KEYS do redis.call(ARGV[3], KEYS[list], ARGV[1 + list]) end
return 1
""")

#: Pushes the redelivery of the messages in ARGV one visibility timeout away. XX: what was acknowledged or restored
#: stays gone.
#: KEYS: unacked_index.
RENEW = Script.of("""
local clock = redis.call('TIME')
local now = string.format('%d.%06d', clock[1], clock[2])
for _, tag in ipairs(ARGV) do redis.call('ZADD', KEYS[1], 'XX', now, tag) end
""")
