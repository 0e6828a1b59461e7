package peer

import "context"

// Headers of a packet: of IPv4 and UDP, in bytes.
const headers = 20 + 8

// sizeRow is how many sizes one row tries, each twice.
const sizeRow = 8

// packets searches for the largest packet that passes, each way.
func (k *asker) packets(ctx context.Context, r *Result) error {
	if err := k.ask(ctx, rowInfo, &r.There); err != nil {
		return err
	}
	most := max(min(k.cfg.Interface.MTU, r.There.MTU, maxSize+headers), headers+headerSize)
	var err error
	if r.To.Packet, err = largest(most, func(sizes []int) (int, error) {
		p := packet{Session: k.session, Cookie: k.cookie}
		for _, size := range sizes {
			k.conn.sendRow(p, run{Row: rowSize, Count: 2, Size: size - headers}, k.peer)
		}
		if err := sleep(ctx, settle); err != nil {
			return 0, err
		}
		var t Tally
		err := k.askTally(ctx, rowSize, &t)
		return t.Largest + headers, err
	}); err != nil {
		return err
	}
	r.From.Packet, err = largest(most, func(sizes []int) (int, error) {
		for _, size := range sizes {
			if _, err := k.run(ctx, run{Row: rowSize, Count: 2, Size: size - headers}); err != nil {
				return 0, err
			}
		}
		if err := sleep(ctx, settle); err != nil {
			return 0, err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		came := 0
		for size := range k.sizes {
			came = max(came, size)
		}
		return came + headers, nil
	})
	return err
}

// largest searches for the largest packet that passes, up to most. try sends packets of
// several sizes, and returns the size of the largest that has passed so far. It returns 0
// where none does.
func largest(most int, try func(sizes []int) (int, error)) (int, error) {
	const least = headers + headerSize
	passes, fails := least-1, most+1
	sizes, sure := []int{most, least}, false
	for len(sizes) > 0 {
		came, err := try(sizes)
		if err != nil {
			return 0, err
		}
		if came = min(came, most); came > passes {
			passes, sure = came, false
		}
		if passes < least {
			return 0, nil
		}
		for _, size := range sizes {
			if size > passes {
				fails = min(fails, size)
			}
		}
		if sizes = between(passes, fails); len(sizes) == 0 && passes < most && !sure {
			// What failed may have been lost by chance: once more.
			sizes, fails, sure = []int{passes + 1, most}, most+1, true
		}
	}
	return passes, nil
}

// between spreads sizes over what is not known yet.
func between(passes, fails int) (sizes []int) {
	for i := 1; i <= sizeRow; i++ {
		size := passes + (fails-passes)*i/(sizeRow+1)
		if size > passes && (len(sizes) == 0 || size > sizes[len(sizes)-1]) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}
