package bench

import (
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/bench/contenders"
)

// ParseBytes parses a number of bytes, with an optional K, M or G.
func ParseBytes(text string) (int, error) {
	digits, shift := strings.ToUpper(text), 0
	for i, unit := range []string{"K", "M", "G"} {
		if d, ok := strings.CutSuffix(digits, unit); ok {
			digits, shift = d, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err == nil && n > 1<<31>>shift {
		err = strconv.ErrRange
	}
	return int(n) << shift, err
}

// ParseMTU is ParseBytes, but 64K is the largest possible datagram.
func ParseMTU(text string) (int, error) {
	n, err := ParseBytes(text)
	if n == 64<<10 {
		n = contenders.MaxDatagram
	}
	return n, err
}
