-- What opens sealed packets with the keys of the preference fanfare.keys: docs/protocol.md §27.4. A packet is opened if it verifies, as
-- fanfare tap does it: whenever it was sent, however often it comes, and to whichever group.

local open_sealed, forget_sealed
do
  local be32 = cipher.be32

  local function le32(x)
    return string.char(x % 256, math.floor(x / 0x100) % 256, math.floor(x / 0x10000) % 256, math.floor(x / 0x1000000))
  end

  local function from_hex(text)
    return (text:gsub("..", function(x) return string.char(tonumber(x, 16)) end))
  end

  -- parse_keys reads what fanfare key writes, or the name of such a file: by id what is known of a key.
  local function parse_keys(text)
    local file = text ~= "" and not text:find("%x:") and io.open(text) or nil
    if file then
      text = file:read("*a")
      file:close()
    end
    local keys = {}
    for line in text:gmatch("[^\n,;]+") do
      line = line:gsub("#.*", "")
      local id, secret = line:match("^%s*0?x?(%x+)[%s:]+(%x+)")
      if secret and #secret == 64 then
        secret = from_hex(secret)
        keys[tonumber(id, 16)] = { secret = secret, marks = cipher.schedule(cipher.hkdf(secret, "", "fanfare sealed 1 mark")) }
      end
    end
    return keys
  end

  -- Which group a salt is for its mark says, if one tries them all. Anybody can make salts up, and a block of AES takes a hundredth of a
  -- millisecond here. So of each salt what is likely is tried: unicast, the groups that a bus has if nothing else is said, and others
  -- that were found in this capture. All groups are tried as long as that did not take more than SEARCHED blocks for nothing.
  local UNICAST, GROUPS = 0xffffffff, 65536
  local LIKELY, FOUND = 16, 32
  local SEARCHED = 4 * GROUPS

  local keys, of -- of which preference
  local senders, strangers -- by key, salt and mark: who has sent, and why others are not opened
  local found, searched -- groups from LIKELY on; blocks
  local MOST = 20000 -- of each table

  -- forget_sealed begins another capture.
  function forget_sealed()
    of, senders, strangers, found, searched = nil, { n = 0 }, { n = 0 }, {}, 0
  end

  local function remember(t, name, value)
    if t.n == MOST then
      for k in pairs(t) do t[k] = nil end
      t.n = 0
    end
    t[name], t.n = value, t.n + 1
    return value
  end

  local FORGED = "does not verify with the key that it names: it is damaged or made up, or the key's secret is another one here"
  local UNSOUGHT = "not looked for: too many unknown salts"

  -- index_of is the index that a salt is for; nil, and why, if there is none.
  local function index_of(key, salt, mark)
    local a, b, c, want = be32(salt, 1), be32(salt, 5), be32(salt, 9), be32(mark, 1)
    local function fits(index) return cipher.mark(key.marks, a, b, c, index) == want end
    if fits(UNICAST) then return UNICAST end
    for _, index in ipairs(found) do
      if fits(index) then return index end
    end
    for index = 0, LIKELY - 1 do
      if fits(index) then return index end
    end
    if searched + GROUPS - LIKELY > SEARCHED then return nil, UNSOUGHT end
    for index = LIKELY, GROUPS - 1 do
      if fits(index) then
        if #found < FOUND then found[#found + 1] = index end
        return index
      end
    end
    searched = searched + GROUPS - LIKELY
    return nil, FORGED
  end

  -- open_sealed returns the packet in a sealed one, given as a string, and the index that it was sealed for; or nil, and why it is not
  -- opened, but for want of any keys.
  function open_sealed(preference, packet)
    if preference == "" then return nil end
    if of ~= preference then
      forget_sealed()
      keys, of = parse_keys(preference), preference
    end
    if packet:byte(3) ~= 1 then return nil, string.format("version %d of sealed packets is not known here", packet:byte(3)) end
    local id = be32(packet:sub(9, 12):reverse(), 1)
    local key = keys[id]
    if not key then return nil, string.format("key 0x%08x is not given", id) end
    local name = packet:sub(9, 12) .. packet:sub(17, 32)
    if strangers[name] then return nil, strangers[name] end
    local sender = senders[name]
    if not sender then
      local salt = packet:sub(17, 28)
      local index, why = index_of(key, salt, packet:sub(29, 32))
      if not index then return nil, remember(strangers, name, why) end
      sender = remember(senders, name, { index = index, key = cipher.sealer(cipher.hkdf(key.secret, salt .. le32(index), "fanfare sealed 1 packets")) })
    end
    local text = cipher.open(sender.key, packet:sub(33, 40) .. packet:sub(5, 8), packet:sub(1, 40), packet:sub(41, -17), packet:sub(-16))
    if not text then return nil, FORGED end
    return text, sender.index
  end
end
