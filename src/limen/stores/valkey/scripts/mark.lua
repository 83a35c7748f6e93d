
-- A mark on a server's memory: whoever finds it gone, or another one, knows that the server has forgotten. Stored as
-- <id>:<moment of the loss>, the moment 0 when nothing was ever lost.
--
-- KEYS   the mark
-- ARGV   'marks'  id that was seen before (empty: none)  id for a new one  moment of a loss that is known otherwise, or 0
-- reply  {its id now, the moment of the loss or 0, now}

if args[1] == 'marks' then
  local function mark()
    local known, fresh, stored = args[2], args[3], redis.pcall('GET', KEYS[1])
    local id, lost = string.match(type(stored) == 'string' and stored or '', '^(%x+):(%d+)$')
    lost = number(lost) or number(args[4])
    if not id then
      id, lost = fresh, known ~= '' and now or lost
    elseif known ~= '' and known ~= id and lost == 0 then -- somebody who did not know of the loss has made it
      id, lost = fresh, now
    end
    lost = math.min(lost, now)
    call('SET', KEYS[1], format('%s:%d', id, lost), 'PX', FOREVER_MS)
    return {id, lost, now}
  end

  return mark()
end
