-- The code below parses packets by the tables above. docs/protocol §2 defines the format.

local fanfare = Proto("fanfare", "Fanfare reliable multicast")
local malformed = ProtoExpert.new("fanfare.malformed", "Fanfare: truncated or malformed", expert.group.MALFORMED, expert.severity.ERROR)
fanfare.experts = { malformed }

local registered = {}

local function register(field)
  registered[#registered + 1] = field
  return field
end

local sizes = { [1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32, [8] = ProtoField.uint64 }

-- number creates the field of a number.
local function number(id, f)
  local codes = f.size < 8 and f.codes or nil
  return register(sizes[f.size](id, f.name, f.hex and base.HEX or base.DEC, codes, nil, f.means))
end

for part_name, part in pairs(parts) do
  for _, f in ipairs(part.fields) do
    -- Fields of the header are named fanfare.NAME, others fanfare.PART.NAME.
    local id = "fanfare." .. (part_name == "header" and "" or part_name .. ".") .. f.name
    if f.kind == "uint" then
      f.field = number(id, f)
      for _, bit in ipairs(f.bits or {}) do
        bit.field = register(ProtoField.bool(id .. "." .. bit.name, bit.name, 8, nil, bit.bit))
      end
    elseif f.kind == "uints" then
      f.field = number(id, f)
    elseif f.kind == "flag" then
      f.field = register(ProtoField.bool(id, f.name, 8, nil, f.mask, f.means))
    elseif f.kind == "text" then
      f.field = register(ProtoField.string(id, f.name, f.means))
    elseif f.kind == "bytes" or f.kind == "chunks" then
      f.field = register(ProtoField.bytes(id, f.name, base.NONE, f.means))
    elseif f.kind == "ranges" then
      f.field = register(ProtoField.none(id, f.name, f.means))
      f.first = register(ProtoField.uint64(id .. ".first", "first", base.DEC, nil, nil, "first sequence of the range"))
      f.number = register(ProtoField.uint64(id .. ".count", "count", base.DEC, nil, nil, "sequences of the range"))
    else
      f.field = register(ProtoField.none(id, f.name, f.means))
    end
  end
end

-- The header of a sealed packet: docs/protocol §27.2. The rest is encrypted: fanfare tap decrypts it with the key.
local sealed = {
  { name = "version", at = 2, field = register(ProtoField.uint8("fanfare.sealed.version", "version")) },
  { name = "counter", at = 4, field = register(ProtoField.uint32("fanfare.sealed.counter", "counter", base.DEC, nil, nil, "incremented for each packet with the same salt")) },
  { name = "key", at = 8, field = register(ProtoField.uint32("fanfare.sealed.key", "key id", base.HEX, nil, nil, "id of the key in the keyring")) },
  { name = "time", at = 12, field = register(ProtoField.absolute_time("fanfare.sealed.time", "time", base.UTC, "when it was sent")) },
  { name = "salt", at = 16, size = 12, field = register(ProtoField.bytes("fanfare.sealed.salt", "salt", base.NONE, "identifies the sender")) },
  { name = "mark", at = 28, size = 4, field = register(ProtoField.bytes("fanfare.sealed.mark", "mark", base.NONE, "proves that the salt belongs to a member")) },
  { name = "train", at = 32, size = 8, field = register(ProtoField.bytes("fanfare.sealed.train", "train", base.NONE, "random, for each train")) },
  { name = "packet", at = 40, field = register(ProtoField.bytes("fanfare.sealed.packet", "packet", base.NONE, "encrypted")) },
  { name = "tag", size = 16, field = register(ProtoField.bytes("fanfare.sealed.tag", "tag", base.NONE, "proves that a member sent the packet")) },
}
local SEALED_HEADER, SEALED_TAG = 40, 16

-- The header of a signed packet: docs/protocol §29.2. It is not verified here.
local signed = {
  { name = "version", at = 2, size = 1, field = register(ProtoField.uint8("fanfare.signed.version", "version")) },
  { name = "node", at = 3, size = 1, field = register(ProtoField.uint8("fanfare.signed.node", "node", base.DEC, nil, nil, "index in the hash tree of the train")) },
  { name = "time", at = 4, size = 4, le = true, field = register(ProtoField.absolute_time("fanfare.signed.time", "time", base.UTC, "when it was signed")) },
  { name = "counter", at = 8, size = 8, le = true, field = register(ProtoField.uint64("fanfare.signed.counter", "counter", base.DEC, nil, nil, "number of the train in its stream")) },
  { name = "salt", at = 16, size = 8, field = register(ProtoField.bytes("fanfare.signed.salt", "salt", base.NONE, "random, for each train")) },
  { name = "signature", at = 24, size = 64, field = register(ProtoField.bytes("fanfare.signed.signature", "signature", base.NONE, "Ed25519 signature of the root of the tree")) },
}
local signed_path = register(ProtoField.bytes("fanfare.signed.path", "path", base.NONE, "siblings of the nodes from the packet to the root"))
local SIGNED_HEADER, SIGNED_NODE = 88, 16

fanfare.fields = registered

-- varint parses a varint; nil if it is truncated or longer than 64 bits.
local function varint(tvb, at, stop)
  local value, scale = UInt64(0), 0
  for i = 0, 9 do
    if at + i >= stop then return nil end
    local byte = tvb(at + i, 1):uint()
    value = value + UInt64(byte % 128):lshift(scale)
    scale = scale + 7
    if byte < 128 then return value, at + i + 1 end
  end
  return nil
end

-- clean returns received text in a printable form: unchanged if it is UTF-8 without spaces and
-- control characters, otherwise quoted. docs/protocol §13.4.
local function clean(raw)
  local out, plain, i = {}, true, 1
  while i <= #raw do
    local byte = raw:byte(i)
    local len = byte < 0x80 and 1 or byte >= 0xc2 and byte < 0xe0 and 2 or byte >= 0xe0 and byte < 0xf0 and 3 or byte >= 0xf0 and byte < 0xf5 and 4 or 0
    local well = len > 0 and i + len - 1 <= #raw
    for k = 1, len - 1 do well = well and raw:byte(i + k) >= 0x80 and raw:byte(i + k) < 0xc0 end
    if not well or byte < 0x20 or byte == 0x7f or byte == 0xc2 and raw:byte(i + 1) < 0xa0 then
      out[#out + 1], plain, len = string.format("\\x%02x", byte), false, 1
    else
      plain = plain and byte ~= 0x20
      out[#out + 1] = raw:sub(i, i + len - 1)
    end
    i = i + len
  end
  local text = table.concat(out)
  if plain then return text end
  return '"' .. text .. '"'
end

local function add_bytes(tree, f, range)
  if f.kind == "text" then
    tree:add(f.field, range, clean(range:bytes():raw()))
  else
    tree:add(f.field, range)
  end
end

local read_part

-- read_variable parses a field that begins at byte at, and returns its end; nil if it is truncated
-- or malformed.
local function read_variable(tvb, at, stop, f, counts, tree)
  local n = f.count and counts[f.count] or nil
  if f.kind == "text" or f.kind == "bytes" then
    local len = n or stop - at
    if len > stop - at then return nil end
    if len > 0 then add_bytes(tree, f, tvb(at, len)) end
    return at + len
  elseif f.kind == "uint" then
    if f.size > stop - at then return nil end
    tree:add_le(f.field, tvb(at, f.size))
    counts[f.name] = tvb(at, f.size):le_uint()
    return at + f.size
  elseif f.kind == "uints" then
    if n * f.size > stop - at then return nil end
    for i = 0, n - 1 do tree:add_le(f.field, tvb(at + i * f.size, f.size)) end
    return at + n * f.size
  elseif f.kind == "chunks" then
    while at < stop do
      if stop - at < f.size then return nil end
      local len = tvb(at, f.size):le_uint()
      if len > stop - at - f.size then return nil end
      if len > 0 then
        tree:add(f.field, tvb(at + f.size, len))
      else
        tree:add(f.field, tvb(at + f.size, 0))
      end
      at = at + f.size + len
    end
    return at
  elseif f.kind == "ranges" then
    local first = tvb(40, 8):le_uint64() -- base
    for _ = 1, n do
      local skip, middle = varint(tvb, at, stop)
      if not skip then return nil end
      local count, after = varint(tvb, middle, stop)
      if not count then return nil end
      first = first + skip
      local item = tree:add(f.field, tvb(at, after - at))
      item:append_text(": " .. tostring(first) .. "+" .. tostring(count))
      item:add(f.first, tvb(at, middle - at), first)
      item:add(f.number, tvb(middle, after - middle), count)
      first, at = first + count, after
    end
    return at
  elseif f.kind == "one" then
    return read_part(tvb, at, stop, f.part, tree:add(f.field, tvb(at, stop - at)))
  end
  local done = 0
  while (n and done < n) or (not n and at < stop and not (f.part.body and tvb(at, 1):uint() == 0)) do
    if at >= stop then return nil end
    local item = tree:add(f.field, tvb(at, stop - at))
    local after = read_part(tvb, at, stop, f.part, item)
    if not after then return nil end
    item:set_len(after - at)
    at, done = after, done + 1
  end
  return at
end

-- read_part parses a part that begins at byte start, and returns its end like read_variable.
function read_part(tvb, start, stop, part, tree)
  if stop - start < part.len then return nil end
  local counts, kind = {}, nil
  for i, f in ipairs(part.fields) do
    if f.at then
      local range = tvb(start + f.at, f.size)
      if f.kind == "text" then
        local len = math.min(counts[f.count], f.size)
        if len > 0 then add_bytes(tree, f, tvb(start + f.at, len)) end
      elseif f.kind == "bytes" then
        tree:add(f.field, range)
      else
        local item = tree:add_le(f.field, range)
        if f.size <= 4 then counts[f.name] = range:le_uint() end
        for _, bit in ipairs(f.bits or {}) do
          if not bit.only or bit.only == counts.type then item:add(bit.field, range) end -- counts.type is set: in the header the type precedes the flags
        end
      end
      if i == 1 then kind = counts[f.name] end
    end
  end
  local at = start + part.len
  if part.body then
    if counts[part.body] > stop - at then return nil end
    stop = at + counts[part.body]
  end
  for _, f in ipairs(part.fields) do
    if not f.at and (not f.when or f.when == kind) and (not f.with or math.floor(tvb(4, 1):uint() / f.with) % 2 == 1) then
      at = read_variable(tvb, at, stop, f, counts, tree)
      if not at then return nil end
    end
  end
  if part.body then return stop end
  return at
end

local function is_sealed(tvb)
  return tvb:len() > SEALED_HEADER + SEALED_TAG and tvb(0, 2):string() == "Fs"
end

local function read_sealed(tvb, pinfo, tree)
  local stop = tvb:len() - SEALED_TAG
  local top = tree:add(fanfare, tvb())
  pinfo.cols.protocol = "Fanfare"
  local info = string.format("sealed with key 0x%08x", tvb(8, 4):le_uint())
  pinfo.cols.info = info
  top:append_text(", " .. info .. ": fanfare tap -r FILE -keys KEYS opens it")
  for _, f in ipairs(sealed) do
    if f.name == "version" then
      top:add(f.field, tvb(f.at, 1))
    elseif f.name == "packet" then
      top:add(f.field, tvb(f.at, stop - f.at))
    elseif f.name == "tag" then
      top:add(f.field, tvb(stop, f.size))
    elseif f.size then
      top:add(f.field, tvb(f.at, f.size))
    else
      top:add_le(f.field, tvb(f.at, 4))
    end
    if f.name == "version" and tvb(2, 1):uint() ~= 1 then break end
  end
end

local function is_packet(tvb)
  return tvb:len() >= parts.header.len and tvb(0, 2):string() == "Ff" and bodies[tvb(3, 1):uint()] ~= nil
end

-- signed_head returns the length of the header of a signed packet; nil if there is none, or of unknown format.
local function signed_head(tvb)
  if tvb:len() < SIGNED_HEADER or tvb(0, 2):string() ~= "Fg" or tvb(2, 1):uint() ~= 1 then return nil end
  local node, head = tvb(3, 1):uint(), SIGNED_HEADER
  if node == 0 then return nil end
  while node > 1 do
    node, head = math.floor(node / 2), head + SIGNED_NODE
  end
  if tvb:len() < head + parts.header.len then return nil end
  return head
end

local read_packet

local function read_signed(tvb, head, pinfo, tree)
  local top = tree:add(fanfare, tvb(0, head))
  for _, f in ipairs(signed) do
    if f.le then top:add_le(f.field, tvb(f.at, f.size)) else top:add(f.field, tvb(f.at, f.size)) end
  end
  if head > SIGNED_HEADER then top:add(signed_path, tvb(SIGNED_HEADER, head - SIGNED_HEADER)) end
  top:append_text(string.format(", signed with key 0x%08x, train %s", tvb(head + 20, 4):le_uint(), tostring(tvb(8, 8):le_uint64())))
  read_packet(tvb(head):tvb(), pinfo, tree)
end

-- read_packet dissects one packet, and returns its length; 0 for another protocol.
function read_packet(tvb, pinfo, tree)
  if is_sealed(tvb) then
    read_sealed(tvb, pinfo, tree)
    return tvb:len()
  end
  local head = signed_head(tvb)
  if head then
    read_signed(tvb, head, pinfo, tree)
    return tvb:len()
  end
  if not is_packet(tvb) then return 0 end
  local version, body = tvb(2, 1):uint(), bodies[tvb(3, 1):uint()]
  local top = tree:add(fanfare, tvb())
  pinfo.cols.protocol = "Fanfare"
  local info = body.name
  if body.name == "data" and tvb:len() >= body.part.len then info = info .. " " .. tostring(tvb(32, 8):le_uint64()) end
  pinfo.cols.info = info
  top:append_text(", " .. info)
  read_part(tvb, 0, tvb:len(), parts.header, top)
  -- Only the header and the hello have the same format in all versions: §18.1.
  if version == VERSION or tvb(3, 1):uint() == HELLO then
    local part = body.part
    if body.name == "data" and tvb(5, 1):uint() ~= 0 then part = parts.packed end
    if not read_part(tvb, 0, tvb:len(), part, top) then top:add_proto_expert_info(malformed) end
  end
  return tvb:len()
end

-- A capture on the sending host shows a train of segmentation offload as one datagram: packets of one stream with
-- equal length, except for the last, which may be shorter. Bytes 16 to 31 are equal in all of them: publisher and
-- epoch; in sealed packets parts of sender and train; in signed ones the salt and part of the signature.
local COMMON_FIRST, COMMON_LAST, MAX_TRAIN, MAX_TRIES = 17, 32, 128, 8 -- counted from 1; udp(7), UDP_MAX_SEGMENTS

-- is_train reports whether a packet of the same stream can begin at each multiple of size.
local function is_train(raw, size)
  if size * MAX_TRAIN < #raw then return false end
  local last
  for at = 0, #raw - 1, size do
    if raw:sub(at + 1, at + 3) ~= raw:sub(1, 3) or raw:sub(at + COMMON_FIRST, at + COMMON_LAST) ~= raw:sub(COMMON_FIRST, COMMON_LAST) then return false end
    if raw:sub(1, 2) == "Ff" then
      local kind = raw:byte(at + 4)
      if bodies[kind] == nil or raw:sub(at + 9, at + 12) ~= raw:sub(9, 12) then return false end
      if bodies[kind].name == "data" and raw:byte(at + 5) % 2 == 0 then -- no repair: sequences increase
        local seq = raw:sub(at + 33, at + 40):reverse()
        if last and seq <= last then return false end
        last = seq
      end
    end
  end
  return true
end

-- segment returns the length of the packets of a train, or that of the datagram if it is one packet.
local function segment(raw)
  local at = COMMON_LAST + 1
  for _ = 1, MAX_TRIES do
    at = raw:find(raw:sub(COMMON_FIRST, COMMON_LAST), at, true)
    if not at then break end
    local size = at - COMMON_FIRST
    if size >= COMMON_LAST and is_train(raw, size) then return size end
    at = at + 1
  end
  return #raw
end

function fanfare.dissector(tvb, pinfo, tree)
  local size = segment(tvb:bytes():raw())
  if size >= tvb:len() then return read_packet(tvb, pinfo, tree) end
  local first, number = nil, 0
  for at = 0, tvb:len() - 1, size do
    read_packet(tvb(at, math.min(size, tvb:len() - at)):tvb(), pinfo, tree)
    first, number = first or tostring(pinfo.cols.info), number + 1
  end
  pinfo.cols.info = string.format("train of %d packets: %s to %s", number, first, tostring(pinfo.cols.info))
  return tvb:len()
end

local function heuristic(tvb, pinfo, tree)
  if not is_packet(tvb) and not is_sealed(tvb) and not signed_head(tvb) then return false end
  fanfare.dissector(tvb, pinfo, tree)
  return true
end

fanfare:register_heuristic("udp", heuristic)

-- Wireshark passes the payload of RDMA including the padding to a multiple of 4 bytes.
local pad_count = Field.new("infiniband.bth.padcnt")

fanfare:register_heuristic("infiniband.payload", function(tvb, pinfo, tree)
  local pad = pad_count()
  local len = tvb:len() - (pad and tonumber(tostring(pad.value)) or 0)
  if len < parts.header.len then return false end
  return heuristic(tvb(0, len):tvb(), pinfo, tree)
end)
DissectorTable.get("udp.port"):add_for_decode_as(fanfare)
