package reliable

import "time"

// rttEstimator smooths round trips as TCP does (RFC 6298), with an initial value for a LAN.
type rttEstimator struct {
	smoothed, variance time.Duration
	newest             time.Duration
	measured           bool
}

// sample adds a measured round trip. docs/protocol §6.9.
func (r *rttEstimator) sample(d time.Duration) {
	d = min(max(d, minRTT), farRTT)
	r.newest = d
	if !r.measured {
		r.smoothed, r.variance, r.measured = d, d/2, true
		return
	}
	diff := max(r.smoothed-d, d-r.smoothed)
	r.variance += (diff - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

// sampleCut adds a time that is sometimes longer than a round trip, such as that of a copy after the first was lost. It
// limits how far one sample moves the estimate.
func (r *rttEstimator) sampleCut(d time.Duration) {
	if r.measured {
		d = min(d, r.smoothed+r.smoothed/2+100*time.Microsecond)
	}
	r.sample(d)
}

// recent is the newest sample, or the initial value.
func (r *rttEstimator) recent() time.Duration {
	if !r.measured {
		return startRTT
	}
	return r.newest
}

// hold is how long a sent packet may be in transit: until then it is not lost. It rises with the first longer sample,
// and falls slowly (RFC 9002 §6.1.2, §6.2.1).
func (r *rttEstimator) hold() time.Duration {
	return max(r.newest, r.value()+4*r.variance)
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

// retry is how long to wait for an answer before asking again. Queueing of answers makes it longer, but it stays short
// enough for many attempts within the recovery deadline, unless the path itself is long. path is the round trip of
// heartbeats and statuses, which do not queue. docs/protocol §6.9.
func (r *rttEstimator) retry(path time.Duration) time.Duration {
	if !r.measured {
		return max(minRetry, 2*startRTT)
	}
	return min(max(maxRetry, 2*min(path, farRTT)), max(minRetry, r.smoothed+4*r.variance))
}
