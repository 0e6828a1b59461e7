package reliable

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

func TestSenderConfig(t *testing.T) {
	good := func() SenderConfig {
		return SenderConfig{PacketSize: 1472, WindowPackets: 4096, RepairShare: 0.5, Silence: time.Second}
	}
	c := good()
	if err := c.setDefaults(); err != nil {
		t.Fatal(err)
	}
	// All other fields have a default, except for identity and options that are off at zero.
	off := map[string]bool{"Publisher": true, "Epoch": true, "Name": true, "GroupTag": true, "LegTags": true, "EqualTrains": true, "Pad": true, "Checksum": true, "Rate": true, "StallLimit": true, "Slow": true, "Packed": true, "Renew": true}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != off[name] {
			t.Errorf("%s is %v by default", name, v.Field(i))
		}
	}
	for name, change := range map[string]func(*SenderConfig){
		"packet size of zero":       func(c *SenderConfig) { c.PacketSize = 0 },
		"packet size too small":     func(c *SenderConfig) { c.PacketSize = wire.MinPacket - 1 },
		"packet size too large":     func(c *SenderConfig) { c.PacketSize = wire.MaxPacket + 1 },
		"window not a power of two": func(c *SenderConfig) { c.WindowPackets = 100 },
		"window too small":          func(c *SenderConfig) { c.WindowPackets = 8 },
		"no window":                 func(c *SenderConfig) { c.WindowPackets = 0 },
		"negative rate":             func(c *SenderConfig) { c.Rate = -1 },
		"no repair share":           func(c *SenderConfig) { c.RepairShare = 0 },
		"repair share not a number": func(c *SenderConfig) { c.RepairShare = math.NaN() },
		"no silence":                func(c *SenderConfig) { c.Silence = 0 },
		"negative silence":          func(c *SenderConfig) { c.Silence = -1 },
		"too many legs":             func(c *SenderConfig) { c.LegTags = make([]uint32, MaxLegs+1) },
		"negative stall limit":      func(c *SenderConfig) { c.StallLimit = -1 },
	} {
		c := good()
		change(&c)
		if err := c.setDefaults(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := NewSender(c, make([]byte, 1<<20), 0); err == nil {
			t.Errorf("%s: accepted by NewSender", name)
		}
	}
	c = good()
	c.MaxTrain, c.MaxTrainBytes = 8, 1<<16
	if _, err := NewSender(c, make([]byte, c.BlockBytes()*c.LeastBlocks()-1), 0); err == nil {
		t.Error("NewSender accepts too little memory")
	}
	// Trains are also limited in bytes.
	c.PacketSize, c.MaxTrain = 9000, 64
	if c.BlockBytes() != 7*9000 {
		t.Errorf("blocks of %d bytes", c.BlockBytes())
	}
	if c = (SenderConfig{}); c.BlockBytes() != 0 || c.Blocks() != 0 || c.LeastBlocks() != 0 {
		t.Error("an invalid configuration has a size")
	}
}

func TestReceiverConfig(t *testing.T) {
	good := func() ReceiverConfig {
		return receiverConfig(ReceiverConfig{Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 1))})
	}
	c := good()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	// All fields are required, except for identity and options that are off at zero.
	off := map[string]bool{"ID": true, "Name": true, "Tag": true, "GroupTag": true, "LegTags": true, "Own": true, "Loopback": true, "FromWindow": true, "Joins": true, "Checksum": true, "Pad": true, "ProvedKeys": true, "Loans": true, "Discovery": true}
	typ := reflect.TypeFor[ReceiverConfig]()
	for i := range typ.NumField() {
		c := good()
		reflect.ValueOf(&c).Elem().Field(i).SetZero()
		if name := typ.Field(i).Name; (c.check() == nil) != off[name] {
			t.Errorf("without %s: %v", name, c.check())
		}
	}
	for name, change := range map[string]func(*ReceiverConfig){
		"no memory":             func(c *ReceiverConfig) { c.Memory = nil },
		"no random source":      func(c *ReceiverConfig) { c.Rand = nil },
		"tiny window":           func(c *ReceiverConfig) { c.WindowBytes = 100 },
		"less memory than that": func(c *ReceiverConfig) { c.WindowBytes, c.MemoryBytes = 1<<20, 1<<19 },
		"no receive buffer":     func(c *ReceiverConfig) { c.Buffer = nil },
		"empty receive buffer":  func(c *ReceiverConfig) { c.Buffer = NewReceiveBuffer(0, false, false) },
		"negative stream limit": func(c *ReceiverConfig) { c.MaxStreams = -1 },
		"too many legs":         func(c *ReceiverConfig) { c.LegTags = make([]uint32, MaxLegs+1) },
		"negative deadline":     func(c *ReceiverConfig) { c.Deadline = -1 },
	} {
		c := good()
		change(&c)
		if _, err := NewReceiver(c, &log{}, &log{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
