package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

var floodKey = bytes.Repeat([]byte{0x11}, 32)

// sealedPacket seals a byte for a group, by a sender with that salt. docs/protocol.md §27.2, §27.4.
func sealedPacket(t *testing.T, salt byte, index uint32) []byte {
	t.Helper()
	b := append([]byte("Fs\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"), bytes.Repeat([]byte{salt}, 12)...)
	name := binary.LittleEndian.AppendUint32(bytes.Clone(b[16:28]), index)
	block := func(salt []byte, info string) cipher.Block {
		key, err := hkdf.Key(sha256.New, floodKey, salt, info, 32)
		if err != nil {
			t.Fatal(err)
		}
		c, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var mark [16]byte
	block(nil, "fanfare sealed 1 mark").Encrypt(mark[:], name)
	b = append(append(b, mark[:4]...), "train123"...)
	gcm, err := cipher.NewGCM(block(name, "fanfare sealed 1 packets"))
	if err != nil {
		t.Fatal(err)
	}
	return gcm.Seal(b, append([]byte("train123"), 0, 0, 0, 0), []byte{7}, b)
}

// counting is the dissector, which writes the blocks of AES that it took for marks to a file at the end.
func counting(t *testing.T) (script string, blocks func() int) {
	t.Helper()
	script, file := filepath.Join(t.TempDir(), "counting.lua"), filepath.Join(t.TempDir(), "blocks")
	const behind = "-- What opens sealed packets"
	text := strings.Replace(string(generate()), behind, fmt.Sprintf(`
local blocks, mark = 0, cipher.mark
function cipher.mark(...)
  blocks = blocks + 1
  return mark(...)
end
local at_end = Listener.new()
function at_end.draw()
  local f = io.open(%q, "w")
  f:write(blocks)
  f:close()
end

%s`, file, behind), 1)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script, func() int {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// Made-up salts, of which anybody can send a flood, cost a bounded number of blocks: each what is likely, once, and all together four times
// all groups. What is likely is found behind them, and so is a group, of all that there can be, that was found before them; of others it
// is said that they were not looked for. docs/protocol.md §27.4.
func TestTsharkMadeUpSalts(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	const (
		madeUp   = 300
		groups   = 65536
		searches = 4
		likely   = 1 + 16 // unicast, and the groups that a bus has by itself
		unsought = "not looked for: too many unknown salts"
	)
	var all [][]byte
	var want []string // the index, or why not
	add := func(b []byte, says string) {
		all, want = append(all, udp(7400, b)), append(want, says)
	}
	add(sealedPacket(t, 1, 5000), "5000")
	add(sealedPacket(t, 2, groups-1), "65535")
	random := rand.New(rand.NewPCG(1, 2))
	flood := make([][]byte, madeUp)
	for i := range flood {
		flood[i] = sealedPacket(t, 3, 0)
		for k := 16; k < 32; k++ {
			flood[i][k] = byte(random.Uint32())
		}
	}
	for range 2 {
		for i, b := range flood {
			add(b, map[bool]string{true: forged, false: unsought}[i < searches])
		}
	}
	add(sealedPacket(t, 4, groups-1), "65535")
	add(sealedPacket(t, 5, 15), "15")
	add(sealedPacket(t, 6, 0xffffffff), "4294967295")
	add(sealedPacket(t, 7, 5001), unsought)
	add(sealedPacket(t, 1, 5000), "5000")
	script, blocks := counting(t)
	packets := tsharkBy(t, script, capture(101, all), "-o", fmt.Sprintf("fanfare.keys:1:%x", floodKey))
	if len(packets) != len(all) {
		t.Fatalf("%d packets of %d", len(packets), len(all))
	}
	for i, p := range packets {
		if got := p.one(t, "fanfare.sealed.index") + p.one(t, "fanfare.sealed.refused"); got != want[i] {
			t.Errorf("packet %d: %q, want %q", i+1, got, want[i])
		}
	}
	// Found before are two groups; before that it took them all, and 5001.
	most := searches*groups + (madeUp+10)*(likely+2) + groups + 5001
	if n := blocks(); n > most || n < most/2 {
		t.Errorf("%d blocks were taken, want %d at most", n, most)
	}
}
