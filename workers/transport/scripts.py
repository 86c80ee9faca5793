"""The Lua scripts of the transport, one for each step that must be atomic."""

from hashlib import sha1

#: One turn: forget the acknowledged messages, then move up to ARGV[1] messages from their lists into ``unacked`` and
#: ``unacked_index``. A message is on a list or in ``unacked`` at every moment, so a connection cut after the reply
#: costs a redelivery, never a message.
#: A message above ARGV[4] bytes, or one that is no kombu message, goes to the list of unreadable messages instead,
#: behind the name of its queue and a line feed.
#: KEYS: unacked, unacked_index, unreadable, then the lists, all of priority step 0 first, then the next step.
#: ARGV: messages wanted, lists per step, '1' to go round the lists or '0' to empty them in order, the largest message
#: to read, the bytes after which a turn takes no further message, one '1' (registered) or '0' (consumed without
#: acknowledgement) per list of a step, the most to take of each queue whatever the step, then acknowledged tags.
#: Reply: messages moved aside as unreadable, then list number, tag ('' if not registered) and raw message for each one
#: taken. RPOP comes before HSET because a full server (noeviction) refuses a script whose first write grows memory; a
#: failed write puts the message back.
TURN = """
local want, width, fair = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local largest, room = tonumber(ARGV[4]), tonumber(ARGV[5])
local first_tag = 6 + 2 * width
if #ARGV >= first_tag then
  redis.call('ZREM', KEYS[2], unpack(ARGV, first_tag))
  redis.call('HDEL', KEYS[1], unpack(ARGV, first_tag))
end
local reply = {0}
if want < 1 or width < 1 then return reply end
local clock = redis.call('TIME')
local now = string.format('%d.%06d', clock[1], clock[2])
local function text(value)
  if value == nil or value == cjson.null then return '' end
  if type(value) ~= 'string' then error('no text') end
  return value
end
local function envelope(raw)
  local properties = cjson.decode(raw).properties
  local tag, info = properties.delivery_tag, properties.delivery_info
  if type(tag) ~= 'string' or tag == '' or #tag > 255 or tag:find('[^%w._:-]') then error('no delivery tag') end
  if type(info) ~= 'table' then error('no delivery info') end
  local exchange, routing_key = text(info.exchange), text(info.routing_key)
  return tag, '[' .. raw .. ',' .. cjson.encode(exchange) .. ',' .. cjson.encode(routing_key) .. ']'
end
local function register(tag, entry)
  redis.call('HSET', KEYS[1], tag, entry)
  redis.call('ZADD', KEYS[2], now, tag)
end
local left = {}
for slot = 1, width do left[slot] = tonumber(ARGV[5 + width + slot]) end
local function take(slot, key)
  if left[slot] < 1 or room < 1 then return false end
  local raw = redis.call('RPOP', key)
  if not raw then return false end
  want, left[slot] = want - 1, left[slot] - 1
  local readable, tag, entry = #raw <= largest, '', nil
  if readable and ARGV[5 + slot] == '1' then readable, tag, entry = pcall(envelope, raw) end
  local written, problem = true, nil
  if not readable then
    written, problem = pcall(redis.call, 'LPUSH', KEYS[3], KEYS[3 + slot] .. '\\n' .. raw)
  elseif entry then
    written, problem = pcall(register, tag, entry)
  end
  if not written then
    redis.call('RPUSH', key, raw)
    error(problem)
  end
  if readable then
    room = room - #raw
    reply[#reply + 1] = slot
    reply[#reply + 1] = tag
    reply[#reply + 1] = raw
  else
    reply[1] = reply[1] + 1
  end
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
"""

#: The name under which a server remembers it after the first ``EVAL``.
TURN_DIGEST = sha1(TURN.encode(), usedforsecurity=False).hexdigest()

#: Moves one message from ``unacked`` to the list of unreadable messages: only the client could tell.
#: KEYS: unacked, unacked_index, unreadable. ARGV: tag ('' if not registered), queue and message as TURN writes them.
#: LPUSH comes first: where a full server refuses it, the message stays in ``unacked``.
SET_ASIDE = """
redis.call('LPUSH', KEYS[3], ARGV[2])
if ARGV[1] ~= '' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[1], ARGV[1])
end
"""

#: Reads a piece of the oldest unreadable message and leaves it there; a client never needs room for all of it.
#: KEYS: unreadable. ARGV: where the piece starts, its length.
#: Reply: nothing if there is none, else the piece, and with the first one the whole length and the SHA-1.
PIECE = """
local raw = redis.call('LINDEX', KEYS[1], -1)
if not raw then return {} end
local start = tonumber(ARGV[1])
local piece = string.sub(raw, start + 1, start + tonumber(ARGV[2]))
if start > 0 then return {piece} end
return {piece, #raw, redis.sha1hex(raw)}
"""

#: Removes the oldest unreadable message if it is still the one with this SHA-1: another worker may have been faster.
#: KEYS: unreadable. ARGV: SHA-1.
REMOVE = """
local raw = redis.call('LINDEX', KEYS[1], -1)
if raw and redis.sha1hex(raw) == ARGV[1] then redis.call('RPOP', KEYS[1]) end
"""

#: Lists up to ARGV[2] messages that nobody renewed for ARGV[1] seconds, by the server's clock: tag and entry, one
#: after the other, until they have ARGV[3] bytes. An index row without its entry is dropped here, or it would head
#: every later list.
#: KEYS: unacked, unacked_index.
OVERDUE = """
local clock = redis.call('TIME')
local until_ = clock[1] + clock[2] / 1000000 - tonumber(ARGV[1])
local reply, room = {}, tonumber(ARGV[3])
for _, tag in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', until_, 'LIMIT', 0, ARGV[2])) do
  local entry = redis.call('HGET', KEYS[1], tag)
  if entry then
    reply[#reply + 1] = tag
    reply[#reply + 1] = entry
    room = room - #entry
    if room < 1 then return reply end
  else
    redis.call('ZREM', KEYS[2], tag)
  end
end
return reply
"""

#: Moves one message from ``unacked`` back to its lists, unless it was acknowledged, restored by another worker, or
#: renewed meanwhile. Those three checks make a mutex needless: a dead holder of one stops all redelivery until it
#: expires.
#: KEYS: unacked, unacked_index, then the lists. ARGV: tag, seconds it must have been idle (-1: whatever), LPUSH or
#: RPUSH, one payload per list.
#: Reply: 1 when it was moved.
RESTORE = """
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
"""

#: Pushes the redelivery of the messages in ARGV one visibility timeout away. XX: what was acknowledged or restored
#: stays gone.
#: KEYS: unacked_index.
RENEW = """
local clock = redis.call('TIME')
local now = string.format('%d.%06d', clock[1], clock[2])
for _, tag in ipairs(ARGV) do redis.call('ZADD', KEYS[1], 'XX', now, tag) end
"""
