
-- ARGV   'young'  lost, then as for any of what follows: the server lost its memory at that moment. A bucket that it
--                 does not know counts as if all but a tenth of its tokens had been spent then, whatever counts in it.
--        'young'  lost  'reset'  fields: forget these, or everything when there are none; what is not known of the
--                 identity was not lost, then, but begins full
-- reply  as for that; to a reset, 1

local RESET = '\0\0\0\0' -- the field that says so: no rule has it, for its name is a hash

local lost
if args[1] == 'young' then
  lost = math.min(number(args[2]), now)
  args = {unpack(args, 3)}
  if args[1] == 'reset' then
    if args[2] then call('HDEL', KEYS[1], unpack(args, 2)) else call('DEL', KEYS[1]) end
    call('HSET', KEYS[1], RESET, '1')
    keep(KEYS[1], nil)
    return 1
  end
end
