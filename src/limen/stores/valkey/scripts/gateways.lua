
-- Who is alive: whoever was heard of within ALIVE_US. Stored is when each gateway was heard last, and the most that were
-- alive at one time in each of the last minutes.
--
-- KEYS   the record
-- ARGV   'alive'   gateway   reply  {alive now, the most alive at one time in this minute and the ten before it}
--        'leave'  gateway   reply  1 when it was alive, else 0

if args[1] == 'alive' or args[1] == 'leave' then
  local ALIVE_US, MINUTES, MEMORY_MS = 10000000, 10, 720000
  local minute = floor(now / 60000000)

  local function read_record()
    local stored = redis.pcall('GET', KEYS[1])
    if type(stored) ~= 'string' then return {}, {} end
    local read, record = pcall(cmsgpack.unpack, stored)
    if not read or type(record) ~= 'table' or #record ~= 2 then return {}, {} end
    return record[1], record[2]
  end

  -- The clock may have stepped back: what lies in the future is now.
  local function still_alive(heard)
    local alive, count = {}, 0
    for gateway, moment in pairs(heard) do
      if moment > now - ALIVE_US then alive[gateway], count = math.min(moment, now), count + 1 end
    end
    return alive, count
  end

  local function most_alive(peaks, count)
    local kept, most = {[minute] = count}, count
    for at, peak in pairs(peaks) do
      at = math.min(at, minute)
      if at >= minute - MINUTES then kept[at], most = math.max(kept[at] or 0, peak), math.max(most, peak) end
    end
    return kept, most
  end

  local function note()
    local heard, peaks = read_record()
    local was_alive = (heard[args[2]] or 0) > now - ALIVE_US
    heard[args[2]] = args[1] == 'alive' and now or nil
    local alive, count = still_alive(heard)
    local kept, most = most_alive(peaks, count)
    call('SET', KEYS[1], cmsgpack.pack({alive, kept}), 'PX', MEMORY_MS)
    if args[1] == 'leave' then return was_alive and 1 or 0 end
    return {count, most}
  end

  return note()
end
