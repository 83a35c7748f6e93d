
-- Slots of a concurrency limit (core/concurrency.py): a sorted set of holders by when they lapse.
--
-- KEYS   the set
-- ARGV   'acquire'  holder  slots  ttl_us   reply  {slots held by others, microseconds until the first of them lapses};
--                                           it is held now if there were fewer than `slots`
--        'renew'    holder  ttl_us          reply  1 when it is held, 0 when it had lapsed
--        'release'  holder                  reply  1 when it was held, else 0

if args[1] == 'acquire' or args[1] == 'renew' or args[1] == 'release' then
  local function lapse(key, ttl)
    call('ZREMRANGEBYSCORE', key, '-inf', format('%d', now))
    for _, late in ipairs(call('ZRANGEBYSCORE', key, format('(%d', now + ttl), '+inf')) do
      call('ZADD', key, format('%d', now + ttl), late) -- the clock stepped back: nobody holds for longer than from now
    end
  end

  local function hold(key, holder, ttl)
    call('ZADD', key, format('%d', now + ttl), holder)
    keep(key, ttl)
  end

  local function acquire()
    local key, holder, slots, ttl = KEYS[1], args[2], number(args[3]), number(args[4])
    if call('TYPE', key).ok ~= 'zset' then call('DEL', key) end
    lapse(key, ttl)
    local held = call('ZCARD', key)
    if call('ZSCORE', key, holder) then held = held - 1 end
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if held < slots then hold(key, holder, ttl) end
    return {held, first[2] and number(first[2]) - now or 0}
  end

  local function renew()
    local lapses = call('ZSCORE', KEYS[1], args[2])
    if not lapses or number(lapses) <= now then return 0 end
    hold(KEYS[1], args[2], number(args[3]))
    return 1
  end

  local function release()
    local lapses = call('ZSCORE', KEYS[1], args[2])
    call('ZREM', KEYS[1], args[2])
    return lapses and number(lapses) > now and 1 or 0
  end

  if args[1] == 'acquire' then return acquire() end
  if args[1] == 'renew' then return renew() end
  return release()
end
