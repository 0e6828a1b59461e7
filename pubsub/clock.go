package pubsub

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// noClock is the Config.Clock of a bus that measures no delivery times.
const noClock = "none"

// clock is the clock that Config.Clock names. docs/protocol §5.11.
func (c *Config) clock() (reliable.Clock, error) {
	if c.Clock == noClock {
		return reliable.Clock{}, nil
	}
	text, err := "clock "+c.Clock, error(nil)
	if c.Clock == "" {
		text, err = hostClockText()
	}
	sum := sha256.Sum256([]byte(text))
	return reliable.Clock{ID: max(1, binary.LittleEndian.Uint64(sum[:])),
		Now: func() uint64 { return uint64(time.Now().UnixNano()) }}, err
}

// hostClockText names the clock of this host since its boot or, where the system has no boot id, of this process.
func hostClockText() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "host " + hostClock(), nil
	}
	return "host " + strings.TrimSuffix(string(b), "\n"), err
}

var hostClock = sync.OnceValue(rand.Text)

func isClock(name string) bool {
	return len(name) <= wire.MaxName && wire.CleanName([]byte(name)) == name
}

// clocks takes the clock's name from the option clock= of the URLs. Those that have it must agree.
func (c *Config) clocks(list []*fabricurl.Fabric) error {
	named := ""
	for _, f := range list {
		switch {
		case f.Clock == "":
			continue
		case !isClock(f.Clock):
			return &URLError{f.String(), fmt.Errorf("clock=%q must be %s", f.Clock, clockForm)}
		case named != "" && named != f.Clock:
			return &URLError{f.String(), fmt.Errorf("clock=%s, and clock=%s in the URL of another leg: a host has one clock", f.Clock, named)}
		case c.Clock != "" && named == "":
			return &URLError{f.String(), fmt.Errorf("clock=%s in the URL, and Config.Clock is %q: leave one out", f.Clock, c.Clock)}
		}
		named, c.Clock = f.Clock, f.Clock
	}
	return nil
}

var clockForm = fmt.Sprintf("at most %d bytes of printable text, without white space", wire.MaxName)
