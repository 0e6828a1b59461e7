package reliable

import "time"

// rttEstimator smooths round trips as TCP does (RFC 6298), with a start value
// of a LAN.
type rttEstimator struct {
	smoothed, variance time.Duration
	measured           bool
}

// docs/protocol.md §6.9.
func (r *rttEstimator) sample(d time.Duration) {
	d = max(d, minRTT)
	if !r.measured {
		r.smoothed, r.variance, r.measured = d, d/2, true
		return
	}
	// A subscriber that stood still answers late, not its network: no single
	// sample moves the estimate far.
	d = min(d, r.smoothed+r.smoothed/2+100*time.Microsecond)
	diff := max(r.smoothed-d, d-r.smoothed)
	r.variance += (diff - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

// value is the smoothed round trip.
func (r *rttEstimator) value() time.Duration {
	if !r.measured {
		return startRTT
	}
	return r.smoothed
}

// known is value, or zero before the first measurement.
func (r *rttEstimator) known() time.Duration {
	if !r.measured {
		return 0
	}
	return r.smoothed
}

// retry is how long to wait for an answer before asking again. Answers that had
// to queue make it long, but not beyond what many tries within the recovery
// deadline allow, unless the path itself is far: path is what heartbeats and
// statuses take, which do not queue. docs/protocol.md §6.9.
func (r *rttEstimator) retry(path time.Duration) time.Duration {
	if !r.measured {
		return max(minRetry, 2*startRTT)
	}
	return min(max(maxRetry, 2*min(path, farRTT)), max(minRetry, r.smoothed+4*r.variance))
}
