"""The Lua scripts of the transport, one for each step that must be atomic."""

from hashlib import sha1

#: Messages that one turn sorts at most: about ten milliseconds of the server's time.
SORTED_AT_ONCE = 1_024

#: One turn: forget the acknowledged messages, then move up to ARGV[1] messages from their lists into ``unacked`` and
#: ``unacked_index``. A message is on a list or in ``unacked`` at every moment, so a connection cut after the reply
#: costs a redelivery, never a message.
#: Where more messages wait on a list than this turn may take of it, they are sorted first: each goes to a list of its
#: company and agent, which its header ``owner`` names, and companies, and the agents of each, take turns. Clients go on
#: sending to the one list, and workers of an earlier release take from it. LMOVE sorts, because the server's log of
#: commands gets no second copy of the message.
#: A message above ARGV[4] bytes, or one that is no kombu message, goes to the list of unreadable messages instead,
#: behind the name of its queue and a line feed.
#: KEYS: unacked, unacked_index, unreadable, then the lists, all of priority step 0 first, then the next step. Beside
#: each list, while it has sorted messages: ``LIST:owners``, their companies, the next one last;
#: ``LIST:owners:COMPANY``, the agents of one; ``LIST:owners:COMPANY:AGENT``, the messages of one; ``LIST:sorted``, how
#: many they all are. Beside the index, ``unacked_index:holders``: which holder has a message, by its tag.
#: ARGV: messages wanted, lists per step, '1' to go round the lists or '0' to empty them in order, the largest message
#: to read, the bytes after which a turn takes, or sorts, no further message, the holder (workers.transport.holder, ''
#: for none), one '1' (registered) or '0' (consumed without acknowledgement) per list of a step, the most to take of
#: each queue whatever the step, then acknowledged tags.
#: Reply: messages moved aside as unreadable, then list number, tag ('' if not registered) and raw message for each one
#: taken. A failed write puts the message back.
TURN = """
local want, width, fair = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local largest, room = tonumber(ARGV[4]), tonumber(ARGV[5])
local holder, holders = ARGV[6], KEYS[2] .. ':holders'
local first_tag = 7 + 2 * width
if #ARGV >= first_tag then
  redis.call('ZREM', KEYS[2], unpack(ARGV, first_tag))
  redis.call('HDEL', KEYS[1], unpack(ARGV, first_tag))
  redis.call('HDEL', holders, unpack(ARGV, first_tag))
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
-- The holder first: without its message the name says nothing, and is dropped.
local function register(tag, entry)
  if holder ~= '' then redis.call('HSET', holders, tag, holder) end
  redis.call('HSET', KEYS[1], tag, entry)
  redis.call('ZADD', KEYS[2], now, tag)
end
local function owner(raw)
  local _, at = raw:find('"owner": "', 1, true)
  local company, agent = raw:match('^(%x+)/(%x+)"', (at or #raw) + 1)
  return company or '-', agent or '-'
end
-- Gives an owner its turn, last of all, once its list has its first message.
local function enter(list, company, agent)
  local owners = list .. ':owners'
  local agents = owners .. ':' .. company
  if redis.call('LLEN', agents .. ':' .. agent) == 1 and redis.call('LPUSH', agents, agent) == 1 then
    redis.call('LPUSH', owners, company)
  end
end
local function sort(list)
  local owners, known, count, bytes = list .. ':owners', {}, 0, 0
  while count < SORTED and bytes < tonumber(ARGV[5]) do
    local raw = redis.call('LINDEX', list, -1)
    if not raw then break end
    local company, agent = owner(raw)
    local agents = owners .. ':' .. company
    local messages = agents .. ':' .. agent
    redis.call('LMOVE', list, messages, 'RIGHT', 'LEFT')
    if not known[messages] then enter(list, company, agent) end
    known[messages] = true
    count, bytes = count + 1, bytes + #raw
  end
  if count > 0 then redis.call('INCRBY', list .. ':sorted', count) end
end
local left, sorted, gone = {}, {}, {}
local function next_sorted(slot, list)
  local owners = list .. ':owners'
  local company = redis.call('LMOVE', owners, owners, 'RIGHT', 'LEFT')
  local agents = owners .. ':' .. company
  local agent = redis.call('LMOVE', agents, agents, 'RIGHT', 'LEFT') or ''
  local messages = agents .. ':' .. agent
  local raw = redis.call('RPOP', messages)
  if redis.call('EXISTS', messages) == 0 then
    redis.call('LPOP', agents)
    if redis.call('EXISTS', agents) == 0 then
      redis.call('LPOP', owners)
      sorted[slot] = redis.call('EXISTS', owners) == 1
    end
  end
  gone[slot] = (gone[slot] or 0) + 1
  return raw
end
for slot = 1, width do left[slot] = tonumber(ARGV[6 + width + slot]) end
local function take(slot, list)
  if left[slot] < 1 or room < 1 then return false end
  local is_sorted = sorted[slot]
  local raw = is_sorted and next_sorted(slot, list) or redis.call('RPOP', list)
  if not raw then return false end
  want, left[slot] = want - 1, left[slot] - 1
  local readable, tag, entry = #raw <= largest, '', nil
  if readable and ARGV[6 + slot] == '1' then readable, tag, entry = pcall(envelope, raw) end
  local written, problem = true, nil
  if not readable then
    written, problem = pcall(redis.call, 'LPUSH', KEYS[3], KEYS[3 + slot] .. '\\n' .. raw)
  elseif entry then
    written, problem = pcall(register, tag, entry)
  end
  if not written then
    local company, agent = owner(raw)
    redis.call('RPUSH', is_sorted and list .. ':owners:' .. company .. ':' .. agent or list, raw)
    if is_sorted then enter(list, company, agent) end
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
local function take_all(base, dry)
  while fair do
    local moved = false
    for slot = 1, width do
      if want < 1 then return end
      if not dry[slot] then
        if take(slot, KEYS[base + slot]) then moved = true else dry[slot] = true end
      end
    end
    if not moved then return end
  end
  for slot = 1, width do
    while want > 0 and not dry[slot] and take(slot, KEYS[base + slot]) do end
  end
end
-- Removes nothing: a full server (noeviction) refuses a script whose first write may grow memory.
redis.call('ZREM', KEYS[2], '')
for base = 3, #KEYS - width, width do
  local lists = {unpack(KEYS, base + 1, base + width)}
  for slot = 1, width do lists[width + slot] = lists[slot] .. ':owners' end
  if want > 0 and redis.call('EXISTS', unpack(lists)) > 0 then
    local dry = {}
    gone = {}
    for slot = 1, width do
      local list, most = lists[slot], math.min(want, left[slot])
      local waiting = redis.call('LLEN', list)
      sorted[slot] = redis.call('EXISTS', lists[width + slot]) == 1
      if most > 0 and waiting > 0 and (sorted[slot] or waiting > most) then
        sort(list)
        sorted[slot] = true
      end
      dry[slot] = waiting == 0 and not sorted[slot]
    end
    take_all(base, dry)
    for slot, count in pairs(gone) do
      if sorted[slot] then
        redis.call('DECRBY', lists[slot] .. ':sorted', count)
      else
        redis.call('DEL', lists[slot] .. ':sorted')
      end
    end
  end
end
return reply
""".replace("SORTED", str(SORTED_AT_ONCE))

#: The name under which a server remembers it after the first ``EVAL``.
TURN_DIGEST = sha1(TURN.encode(), usedforsecurity=False).hexdigest()

#: Counts the messages of lists, sorted or not.
#: KEYS: the lists.
SIZE = """
local count = 0
for _, list in ipairs(KEYS) do
  count = count + redis.call('LLEN', list) + (redis.call('GET', list .. ':sorted') or 0)
end
return count
"""

#: Reads when the next message of each list was sent, by its header ``sent_at``, and takes none: of sorted messages the
#: oldest of the owner whose turn it is.
#: KEYS: the lists. Reply: for each the seconds since 1970 as text; '' where none waits, or it does not say.
SENT = """
local reply = {}
for place, list in ipairs(KEYS) do
  local key, owners = list, list .. ':owners'
  local company = redis.call('LINDEX', owners, -1)
  if company then
    local agents = owners .. ':' .. company
    key = agents .. ':' .. (redis.call('LINDEX', agents, -1) or '')
  end
  local raw = redis.call('LINDEX', key, -1)
  local _, at = (raw or ''):find('"sent_at": "', 1, true)
  reply[place] = at and raw:match('^%d+%.?%d*', at + 1) or ''
end
return reply
"""

#: Moves up to ``SORTED_AT_ONCE`` sorted messages back onto their list, for consumers that know only that one.
#: KEYS: the list. Reply: 1 while more are sorted.
UNSORT = """
local owners, count = KEYS[1] .. ':owners', 0
while count < SORTED do
  local company = redis.call('LINDEX', owners, -1)
  if not company then break end
  local agents = owners .. ':' .. company
  local messages = agents .. ':' .. (redis.call('LINDEX', agents, -1) or '')
  if redis.call('LMOVE', messages, KEYS[1], 'LEFT', 'RIGHT') then count = count + 1 end
  if redis.call('EXISTS', messages) == 0 then redis.call('RPOP', agents) end
  if redis.call('EXISTS', agents) == 0 then redis.call('RPOP', owners) end
end
if redis.call('EXISTS', owners) == 1 then
  redis.call('DECRBY', KEYS[1] .. ':sorted', count)
  return 1
end
redis.call('DEL', KEYS[1] .. ':sorted')
return 0
""".replace("SORTED", str(SORTED_AT_ONCE))

#: Moves one message from ``unacked`` to the list of unreadable messages: only the client could tell.
#: KEYS: unacked, unacked_index, unreadable. ARGV: tag ('' if not registered), queue and message as TURN writes them.
#: LPUSH comes first: where a full server refuses it, the message stays in ``unacked``.
SET_ASIDE = """
redis.call('LPUSH', KEYS[3], ARGV[2])
if ARGV[1] ~= '' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2] .. ':holders', ARGV[1])
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

#: Lists who holds messages. A name whose message is gone is dropped: a worker of an earlier release acknowledged it.
#: KEYS: unacked, unacked_index. Reply: each holder once.
HOLDERS = """
local reply, known, key = {}, {}, KEYS[2] .. ':holders'
local found = redis.call('HGETALL', key)
for at = 1, #found, 2 do
  if redis.call('HEXISTS', KEYS[1], found[at]) == 0 then
    redis.call('HDEL', key, found[at])
  elseif not known[found[at + 1]] then
    known[found[at + 1]] = true
    reply[#reply + 1] = found[at + 1]
  end
end
return reply
"""

#: Lists the messages of one holder: tag and entry, one after the other, until they have ARGV[2] bytes.
#: KEYS: unacked, unacked_index. ARGV: holder, bytes.
HELD = """
local reply, room = {}, tonumber(ARGV[2])
local found = redis.call('HGETALL', KEYS[2] .. ':holders')
for at = 1, #found, 2 do
  local entry = found[at + 1] == ARGV[1] and redis.call('HGET', KEYS[1], found[at])
  if entry then
    reply[#reply + 1] = found[at]
    reply[#reply + 1] = entry
    room = room - #entry
    if room < 1 then return reply end
  end
end
return reply
"""

#: Moves one message from ``unacked`` back to its lists, unless it was acknowledged, restored by another worker, or
#: renewed meanwhile. Those three checks make a mutex needless: a dead holder of one stops all redelivery until it
#: expires.
#: KEYS: unacked, unacked_index, then the lists. ARGV: tag, seconds it must have been idle (-1: whatever), the holder
#: that must have it ('': whoever), LPUSH or RPUSH, one payload per list.
#: Reply: 1 when it was moved.
RESTORE = """
local idle, holders = tonumber(ARGV[2]), KEYS[2] .. ':holders'
if idle >= 0 then
  local score = redis.call('ZSCORE', KEYS[2], ARGV[1])
  local clock = redis.call('TIME')
  if not score or clock[1] + clock[2] / 1000000 - tonumber(score) < idle then return 0 end
end
if ARGV[3] ~= '' and redis.call('HGET', holders, ARGV[1]) ~= ARGV[3] then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', holders, ARGV[1])
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
for list = 3, #KEYS do redis.call(ARGV[4], KEYS[list], ARGV[2 + list]) end
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
