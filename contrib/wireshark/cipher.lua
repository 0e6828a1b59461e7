-- AES-256-GCM, SHA-256 and HKDF: Lua in Wireshark has none of them. docs/protocol.md §27.4 says what sealed packets take of them.

local cipher = {}
do
  local bits = bit32 or bit
  local band, bxor, bnot, rshift, lshift, bor = bits.band, bits.bxor, bits.bnot, bits.rshift, bits.lshift, bits.bor

  local function word(x) return x % 0x100000000 end

  function cipher.be32(s, at)
    local a, b, c, d = s:byte(at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
  end

  local be32 = cipher.be32

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
  function cipher.hkdf(secret, salt, info)
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

  -- schedule is what a key becomes for the rounds.
  function cipher.schedule(key)
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

  -- rounds are all but the last, of the four columns of a block.
  local function rounds(w, a, b, c, d)
    local t1, t2, t3, t4 = T[1], T[2], T[3], T[4]
    a, b, c, d = bxor(a, w[0]), bxor(b, w[1]), bxor(c, w[2]), bxor(d, w[3])
    for r = 4, 4 * ROUNDS - 4, 4 do
      a, b, c, d =
        bxor(t1[byte3(a)], t2[byte2(b)], t3[byte1(c)], t4[byte0(d)], w[r]),
        bxor(t1[byte3(b)], t2[byte2(c)], t3[byte1(d)], t4[byte0(a)], w[r + 1]),
        bxor(t1[byte3(c)], t2[byte2(d)], t3[byte1(a)], t4[byte0(b)], w[r + 2]),
        bxor(t1[byte3(d)], t2[byte2(a)], t3[byte1(b)], t4[byte0(c)], w[r + 3])
    end
    return a, b, c, d
  end

  local function last(p, q, r, s, k)
    return word(bxor(((S[byte3(p)] * 256 + S[byte2(q)]) * 256 + S[byte1(r)]) * 256 + S[byte0(s)], k))
  end

  local function encrypt(w, a, b, c, d)
    a, b, c, d = rounds(w, a, b, c, d)
    local r = 4 * ROUNDS
    return last(a, b, c, d, w[r]), last(b, c, d, a, w[r + 1]), last(c, d, a, b, w[r + 2]), last(d, a, b, c, w[r + 3])
  end

  -- mark is the first column of the block of a salt, in three columns, and an index.
  function cipher.mark(w, a, b, c, index)
    local d = ((index % 256 * 256 + math.floor(index / 0x100) % 256) * 256 + math.floor(index / 0x10000) % 256) * 256 + math.floor(index / 0x1000000)
    local p, q, r, s = rounds(w, a, b, c, d)
    return last(p, q, r, s, w[4 * ROUNDS])
  end

  -- GHASH, by four bits at a time: what 4 bits that fall out of a product become in its first column, and the products of a key.
  local FALLEN = {}
  for i = 0, 15 do
    local x = 0
    for k = 0, 3 do
      if math.floor(i / 2 ^ k) % 2 == 1 then x = bxor(x, rshift(0xe1000000, 3 - k)) end
    end
    FALLEN[i] = word(x)
  end

  local function products(a, b, c, d)
    local m = { [0] = { 0, 0, 0, 0 }, [8] = { a, b, c, d } }
    for _, i in ipairs({ 4, 2, 1 }) do
      local x = m[2 * i]
      local fell = x[4] % 2 == 1 and 0xe1000000 or 0
      m[i] = {
        word(bxor(rshift(x[1], 1), fell)), word(bor(rshift(x[2], 1), lshift(x[1], 31))),
        word(bor(rshift(x[3], 1), lshift(x[2], 31))), word(bor(rshift(x[4], 1), lshift(x[3], 31))),
      }
    end
    for _, i in ipairs({ 2, 4, 8 }) do
      for k = 1, i - 1 do
        m[i + k] = {}
        for n = 1, 4 do m[i + k][n] = word(bxor(m[i][n], m[k][n])) end
      end
    end
    return m
  end

  -- times multiplies a block by the key of the products m.
  local function times(m, x1, x2, x3, x4)
    local a, b, c, d = 0, 0, 0, 0
    for _, x in ipairs({ x4, x3, x2, x1 }) do
      for _ = 1, 8 do
        local y, fell = m[x % 16], FALLEN[band(d, 15)]
        d = bxor(rshift(d, 4), lshift(c, 28), y[4])
        c = bxor(rshift(c, 4), lshift(b, 28), y[3])
        b = bxor(rshift(b, 4), lshift(a, 28), y[2])
        a = bxor(rshift(a, 4), fell, y[1])
        x = math.floor(x / 16)
      end
    end
    return word(a), word(b), word(c), word(d)
  end

  -- sealer is the cipher of a key: its rounds, and its products for GHASH.
  function cipher.sealer(key)
    local w = cipher.schedule(key)
    return { w = w, products = products(encrypt(w, 0, 0, 0, 0)) }
  end

  -- verified reports whether a tag is that of a header and a text, which is encrypted.
  local function verified(k, n1, n2, n3, header, text, tag)
    local a, b, c, d = 0, 0, 0, 0
    for _, s in ipairs({ header, text }) do
      s = s .. string.rep("\0", -#s % 16)
      for at = 1, #s, 16 do
        a, b, c, d = times(k.products, word(bxor(a, be32(s, at))), word(bxor(b, be32(s, at + 4))), word(bxor(c, be32(s, at + 8))), word(bxor(d, be32(s, at + 12))))
      end
    end
    a, b, c, d = times(k.products, a, word(bxor(b, 8 * #header)), c, word(bxor(d, 8 * #text)))
    local p, q, r, s = encrypt(k.w, n1, n2, n3, 1)
    return from_be32(bxor(a, p)) .. from_be32(bxor(b, q)) .. from_be32(bxor(c, r)) .. from_be32(bxor(d, s)) == tag
  end

  -- open is AES-GCM (NIST SP 800-38D): the text, decrypted, or nil if it does not verify.
  function cipher.open(k, nonce, header, text, tag)
    local n1, n2, n3 = be32(nonce, 1), be32(nonce, 5), be32(nonce, 9)
    if not verified(k, n1, n2, n3, header, text, tag) then return nil end
    local out, padded = {}, text .. string.rep("\0", -#text % 16)
    for at = 1, #text, 16 do
      local p, q, r, s = encrypt(k.w, n1, n2, n3, (at - 1) / 16 + 2) -- the first block is for the tag
      out[#out + 1] = from_be32(bxor(p, be32(padded, at))) .. from_be32(bxor(q, be32(padded, at + 4))) .. from_be32(bxor(r, be32(padded, at + 8))) .. from_be32(bxor(s, be32(padded, at + 12)))
    end
    return table.concat(out):sub(1, #text)
  end
end
