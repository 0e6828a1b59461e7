-- What opens sealed packets with the keys of the preference fanfare.keys: docs/protocol.md §27.4. AES and SHA-256 are here since Lua
-- in Wireshark has neither. The tag is not verified: a packet that somebody has changed is shown changed. The mark is, so that
-- nothing is shown that was sealed with another key, or for another group.

local open_sealed
do
  local bits = bit32 or bit
  local band, bxor, bnot, rshift, lshift, bor = bits.band, bits.bxor, bits.bnot, bits.rshift, bits.lshift, bits.bor

  local function word(x) return x % 0x100000000 end

  local function be32(s, at)
    local a, b, c, d = s:byte(at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
  end

  local function from_be32(x)
    x = word(x)
    return string.char(math.floor(x / 0x1000000) % 256, math.floor(x / 0x10000) % 256, math.floor(x / 0x100) % 256, x % 256)
  end

  -- SHA-256 (FIPS 180-4). Its constants are the fractions of roots of primes.
  local K, INIT = {}, {}
  do
    local function fraction(x) return math.floor((x - math.floor(x)) * 0x100000000) end
    local n = 2
    while #K < 64 do
      local prime = true
      for d = 2, math.floor(math.sqrt(n)) do prime = prime and n % d ~= 0 end
      if prime then
        if #INIT < 8 then INIT[#INIT + 1] = fraction(math.sqrt(n)) end
        K[#K + 1] = fraction(n ^ (1 / 3))
      end
      n = n + 1
    end
  end

  local function rotate(x, n) return bor(rshift(x, n), lshift(x, 32 - n)) end

  local function sha256(text)
    local h = { table.unpack(INIT) }
    text = text .. "\128" .. string.rep("\0", (55 - #text) % 64) .. "\0\0\0\0" .. from_be32(#text * 8)
    local w = {}
    for from = 1, #text, 64 do
      for i = 1, 16 do w[i] = be32(text, from + 4 * i - 4) end
      for i = 17, 64 do
        local a, b = w[i - 15], w[i - 2]
        local s = bxor(rotate(a, 7), rotate(a, 18), rshift(a, 3))
        local t = bxor(rotate(b, 17), rotate(b, 19), rshift(b, 10))
        w[i] = word(w[i - 16] + word(s) + w[i - 7] + word(t))
      end
      local a, b, c, d, e, f, g, x = table.unpack(h)
      for i = 1, 64 do
        local s = bxor(rotate(e, 6), rotate(e, 11), rotate(e, 25))
        local t = x + word(s) + word(bxor(band(e, f), band(bnot(e), g))) + K[i] + w[i]
        local u = word(bxor(rotate(a, 2), rotate(a, 13), rotate(a, 22))) + word(bxor(band(a, b), band(a, c), band(b, c)))
        x, g, f, e, d, c, b, a = g, f, e, word(d + t), c, b, a, word(t + u)
      end
      for i, y in ipairs({ a, b, c, d, e, f, g, x }) do h[i] = word(h[i] + y) end
    end
    for i = 1, 8 do h[i] = from_be32(h[i]) end
    return table.concat(h)
  end

  local function masked(key, mask)
    key = key .. string.rep("\0", 64 - #key)
    return (key:gsub(".", function(c) return string.char(bxor(c:byte(), mask) % 256) end))
  end

  local function hmac(key, text) return sha256(masked(key, 0x5c) .. sha256(masked(key, 0x36) .. text)) end

  -- hkdf is HKDF-SHA256 (RFC 5869), 32 bytes of it.
  local function hkdf(secret, salt, info)
    return hmac(hmac(salt, secret), info .. "\1")
  end

  -- AES-256 (FIPS 197), encryption alone, by tables of four columns.
  local S, T = {}, { {}, {}, {}, {} }
  do
    local log, power, x = {}, {}, 1
    for i = 0, 254 do
      power[i], log[x] = x, i
      local double = x * 2
      if double > 255 then double = bxor(double, 0x11b) end
      x = bxor(double, x)
    end
    for i = 0, 255 do
      local inverse = i > 0 and power[(255 - log[i]) % 255] or 0
      local s, y = inverse, inverse
      for _ = 1, 4 do
        y = y * 2 % 256 + math.floor(y / 128)
        s = bxor(s, y)
      end
      S[i] = bxor(s, 0x63)
    end
    for i = 0, 255 do
      local s = S[i]
      local double = s * 2
      if double > 255 then double = bxor(double, 0x11b) end
      local t = ((double * 256 + s) * 256 + s) * 256 + bxor(double, s)
      for k = 1, 4 do
        T[k][i] = t
        t = math.floor(t / 256) + t % 256 * 0x1000000
      end
    end
  end

  local function substituted(x)
    x = word(x)
    return ((S[math.floor(x / 0x1000000)] * 256 + S[math.floor(x / 0x10000) % 256]) * 256 + S[math.floor(x / 0x100) % 256]) * 256 + S[x % 256]
  end

  local ROUNDS = 14

  local function schedule(key)
    local w, rcon = {}, 1
    for i = 0, 7 do w[i] = be32(key, 4 * i + 1) end
    for i = 8, 4 * ROUNDS + 3 do
      local t = w[i - 1]
      if i % 8 == 0 then
        t = bxor(substituted(t % 0x1000000 * 256 + math.floor(t / 0x1000000)), rcon * 0x1000000)
        rcon = rcon * 2
      elseif i % 8 == 4 then
        t = substituted(t)
      end
      w[i] = word(bxor(w[i - 8], t))
    end
    return w
  end

  local function byte3(x) return rshift(x, 24) end
  local function byte2(x) return band(rshift(x, 16), 255) end
  local function byte1(x) return band(rshift(x, 8), 255) end
  local function byte0(x) return band(x, 255) end

  local function encrypt(w, block)
    local a, b, c, d = bxor(be32(block, 1), w[0]), bxor(be32(block, 5), w[1]), bxor(be32(block, 9), w[2]), bxor(be32(block, 13), w[3])
    local t1, t2, t3, t4 = T[1], T[2], T[3], T[4]
    for r = 4, 4 * ROUNDS - 4, 4 do
      a, b, c, d =
        bxor(t1[byte3(a)], t2[byte2(b)], t3[byte1(c)], t4[byte0(d)], w[r]),
        bxor(t1[byte3(b)], t2[byte2(c)], t3[byte1(d)], t4[byte0(a)], w[r + 1]),
        bxor(t1[byte3(c)], t2[byte2(d)], t3[byte1(a)], t4[byte0(b)], w[r + 2]),
        bxor(t1[byte3(d)], t2[byte2(a)], t3[byte1(b)], t4[byte0(c)], w[r + 3])
    end
    local function last(p, q, r, s, k)
      return from_be32(bxor(((S[byte3(p)] * 256 + S[byte2(q)]) * 256 + S[byte1(r)]) * 256 + S[byte0(s)], w[4 * ROUNDS + k]))
    end
    return last(a, b, c, d, 0) .. last(b, c, d, a, 1) .. last(c, d, a, b, 2) .. last(d, a, b, c, 3)
  end

  -- decrypt is GCM's counter mode: the first block is for the tag.
  local function decrypt(w, nonce, text)
    local out = {}
    for from = 1, #text, 16 do
      local stream = encrypt(w, nonce .. from_be32((from - 1) / 16 + 2))
      local n = math.min(16, #text - from + 1)
      for i = 1, n do out[#out + 1] = string.char(bxor(text:byte(from + i - 1), stream:byte(i)) % 256) end
    end
    return table.concat(out)
  end

  local function from_hex(text)
    return (text:gsub("..", function(x) return string.char(tonumber(x, 16)) end))
  end

  local function le32(x) return from_be32(x):reverse() end

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
        keys[tonumber(id, 16)] = { secret = secret, marks = schedule(hkdf(secret, "", "fanfare sealed 1 mark")) }
      end
    end
    return keys
  end

  local UNICAST, GROUPS = 0xffffffff, 4096

  -- index_of is the group that a salt is for, as its mark says; nil: of none with this key.
  local function index_of(key, salt, mark)
    for i = -1, GROUPS - 1 do
      local index = i < 0 and UNICAST or i
      if encrypt(key.marks, salt .. le32(index)):sub(1, 4) == mark then return index end
    end
    return nil
  end

  local keys, of, senders, count = nil, nil, {}, 0

  -- open_sealed returns the packet in a sealed one, given as a string, and the index that it was sealed for; nil: not with these keys.
  function open_sealed(preference, packet)
    if preference == "" then return nil end
    if of ~= preference then keys, of, senders, count = parse_keys(preference), preference, {}, 0 end
    local key = keys[be32(packet:sub(9, 12):reverse(), 1)]
    if not key or packet:byte(3) ~= 1 then return nil end
    local name = packet:sub(9, 12) .. packet:sub(17, 32)
    local sender = senders[name]
    if sender == nil then
      if count == 10000 then senders, count = {}, 0 end
      local salt = packet:sub(17, 28)
      local index = index_of(key, salt, packet:sub(29, 32))
      sender = index and { index = index, key = schedule(hkdf(key.secret, salt .. le32(index), "fanfare sealed 1 packets")) } or false
      senders[name], count = sender, count + 1
    end
    if not sender then return nil end
    return decrypt(sender.key, packet:sub(33, 40) .. packet:sub(5, 8), packet:sub(41, -17)), sender.index
  end
end

