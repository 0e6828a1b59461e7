package fabric

import (
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Rates of enum ibv_rate, in Gbit/s (man ibv_rate_to_mbps; IBTA 15.2.5.17). The
// codes are not in the order of the rates.
var rates = map[uint8]float64{
	2: 2.5, 5: 5, 3: 10, 11: 14, 6: 20, 15: 25, 19: 28, 4: 30, 7: 40, 20: 50, 12: 56, 8: 60, 9: 80,
	16: 100, 13: 112, 10: 120, 14: 168, 17: 200, 18: 300, 21: 400, 22: 600, 23: 800, 24: 1200,
}

// defaultRate is the default of HostConfig.RateGbps.
const defaultRate = 100

// broadcastRate is the rate code of IPoIB's broadcast group, as with OpenSM: 10 Gbit/s, so that slow ports can also be
// members.
const broadcastRate uint8 = 3

// slowest is the slowest rate in Gbit/s.
const slowest = 2.5

// largestRate returns the code of the fastest rate that a port of gbps supports and that the selector permits with
// want, or false if there is none.
func largestRate(gbps float64, selector, want uint8) (code uint8, ok bool) {
	for c, r := range rates {
		if r <= gbps && r > rates[code] && rateSelected(selector, c, want) {
			code = c
		}
	}
	return code, code != 0
}

// rateSelected is soft.Selected for rate codes, compared by their rates. An invalid code selects nothing.
func rateSelected(selector, have, want uint8) bool {
	w, known := rates[want]
	return selector == soft.SelectLargest || known && soft.Selected(selector, rates[have], w)
}

// largestMTU returns the code of the largest MTU that a port supports and that the selector permits with want, or false
// if there is none.
func largestMTU(port rdma.MTU, selector, want uint8) (code uint8, ok bool) {
	if selector != soft.SelectLargest && rdma.MTUFromCode(want) == 0 {
		return 0, false
	}
	for code = port.Code(); code > 0; code-- {
		if soft.Selected(selector, code, want) {
			return code, true
		}
	}
	return 0, false
}

// carries reports whether a port of gbps can join a group with this rate code. No port can join one with an invalid
// code.
func carries(gbps float64, code uint8) bool {
	r, known := rates[code]
	return known && r <= gbps
}
